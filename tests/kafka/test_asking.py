"""Labels that a worker asks for: in the transaction of their outputs, within the budget."""

from __future__ import annotations

import json

import pytest

from stream_can.stream.requests import reason_of
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, fill, run_once
from tests.kafka.topics import read


def test_each_request_stands_beside_its_output_and_the_budget_holds(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, ask=0.1)
    for seed in range(3):  # three workers, one after the other
        fill(app, 1000, seed)
        worker = run_once(app)
    assert app.verify() == 3000
    for partition in range(app.partitions):
        marked = [
            (record.key, message["ask"])
            for record in app.outputs(partition)
            if "ask" in (message := json.loads(record.value))
        ]
        requests = read(app.servers, app.settings().requests_topic, partition)
        assert [(r.key, reason_of(r)) for r in requests] == marked
        assert {reason for _, reason in marked} == {"random", "margin"}
        # Of 1,500 rows. At most, with N = 500, (0.05 + 1/N) (1500 + N) for each half.
        assert 50 < len(marked) <= 208
    registry = worker.metrics.registry
    asked = [
        registry.get_sample_value("stream_can_label_requests_total", {"reason": reason})
        for reason in ("random", "margin")
    ]
    assert 0 < sum(asked) < app.checked.requests  # of the last worker alone
    answered = registry.get_sample_value("stream_can_label_requests_answered_total")
    opened = [
        registry.get_sample_value("stream_can_open_label_requests", {"partition": str(partition)})
        for partition in range(app.partitions)
    ]
    assert answered > 0
    assert answered + sum(opened) == sum(asked)


def test_labels_are_needed(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, labels=False)
    with pytest.raises(ValueError, match="ask: needs labels"):
        app.settings(ask=0.1)
