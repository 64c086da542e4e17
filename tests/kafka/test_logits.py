"""Logits in topics: workers, learner and labels that echo them; judged from the topics alone."""

from __future__ import annotations

import json
import math

from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, fill, run_once


def test_outputs_are_probabilities_and_keep_the_logits(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, commit_every=100, logits=True)
    fill(app, 1500, 0)
    run_once(app, learned=1500)
    assert app.verify() == 1500
    for p in range(app.partitions):
        for record in app.outputs(p):
            answer = json.loads(record.value)
            assert math.isclose(sum(answer["probs"]), 1, rel_tol=1e-12)
            assert max(answer["probs_raw"]) > 1
