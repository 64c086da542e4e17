"""Labels that a worker asks for: in the transaction of their outputs, within the budget."""

from __future__ import annotations

import json

import pytest

from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, fill, run_once
from tests.kafka.topics import read


def test_each_request_names_its_prediction_and_the_budget_holds(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, ask=0.1)
    for seed in range(3):  # three workers, one after the other
        fill(app, 1000, seed, first=1000 * seed)
        worker = run_once(app)
    assert app.verify() == 3000
    requests = [
        one for p in range(app.partitions)
        for one in read(app.servers, app.settings().requests_topic, p)
    ]  # fmt: skip
    says = [json.loads(one.value) for one in requests]
    stored = {
        (p, one.offset): one
        for p in range(app.partitions) for one in read(app.servers, app.given["input"], p)
    }  # fmt: skip
    for record, one in zip(requests, says, strict=True):
        source = stored[one.get("partition", 0), one.get("offset", 0)]
        assert (source.key, one["topic"]) == (one["id"].encode(), app.given["input"])
        assert json.loads(source.value)["probs"] == one["probs_raw"]
        assert dict(record.headers)["stream-can-reason"] == one["reason"].encode()
    assert {one["reason"] for one in says} == {"random", "margin"}
    assert 100 < len(says) <= 2 * 0.05 * 3000 * 1.2
    value = worker.metrics.registry.get_sample_value
    asked = [
        value("stream_can_label_requests_total", {"reason": reason})
        for reason in ("random", "margin")
    ]
    assert 0 < sum(asked) < app.checked.requests == len(says)  # of the last worker alone
    assert value("stream_can_label_requests_answered_total") == sum(asked)


def test_requests_that_their_topic_refuses_are_left_out(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Sent, one would end the state's transaction, and again after each restart."""
    small = {"max.message.bytes": "300"}
    app = App(broker.bootstrap_servers, ask=0.1, partitions=1, configs={"label-requests": small})
    fill(app, 400)
    run_once(app)
    assert len(app.outputs(0)) == 400
    assert "a label request is left out" in caplog.text
    assert read(app.servers, app.settings().requests_topic, 0) == []


def test_labels_are_needed(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, labels=False)
    with pytest.raises(ValueError, match="ask: needs labels"):
        app.settings(ask=0.1)
