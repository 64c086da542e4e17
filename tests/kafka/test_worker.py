"""Predictions and late labels through a worker between the topics of real brokers."""

from __future__ import annotations

import json

from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, fill
from tests.kafka.topics import wait


def test_smoke(each_broker: Broker) -> None:
    app = App(each_broker.bootstrap_servers)
    fill(app, 3000)
    running = app.worker()
    wait("all committed", lambda: running.error or app.lag() == 0)
    running.stop()
    assert app.verify() == 3000
    first = app.outputs(0)[0]
    assert json.loads(first.value).keys() == {"id", "probs", "note", "probs_raw"}
    assert [name for name, _ in first.headers] == ["h", "stream-can-version", "stream-can-learned"]
    assert app.checked.learned == 3000
    assert app.checked.unknown == 0  # what was sent is judged
