"""Decisions of workers, and of a learner that answers a backlog: of the rows that are sent."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from stream_can import Costs
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, fill, run_once


def decided(app: App) -> list[dict[str, Any]]:
    """All outputs, whose decisions are those of the library."""
    outputs = [json.loads(r.value) for p in range(app.partitions) for r in app.outputs(p)]
    costs = Costs(app.given["classes"], app.given["costs"])
    sent = np.array([output["probs"] for output in outputs])
    assert [output["decision"] for output in outputs] == costs.decide(sent)
    return outputs


def test_each_output_has_the_cheapest_action(broker: Broker) -> None:
    costs = {"take": {"a": 0.0, "*": 3.0}, "leave": {"a": 2.0, "*": 0.0}, "look": 0.8}
    app = App(broker.bootstrap_servers, commit_every=100, costs=costs)
    fill(app, 1500, 0)
    worker = run_once(app, learned=1500)
    assert app.verify() == 1500
    outputs = decided(app)
    expected = worker.status_report.status().hour.expected_accuracy
    assert expected is not None
    assert expected.value == pytest.approx(np.mean([max(o["probs"]) for o in outputs]), abs=0.05)
    assert {output["decision"] for output in outputs} == {"take", "leave", "look"}
