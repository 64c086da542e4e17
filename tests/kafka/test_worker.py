"""Predictions and late labels through a worker between the topics of real brokers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from stream_can.kafka import DeniedError, Worker
from stream_can.kafka.client.assigning import RangeOwners
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, fill, run_once
from tests.kafka.topics import produce


def test_smoke(each_broker: Broker) -> None:
    app = App(each_broker.bootstrap_servers)
    fill(app, 3000)
    run_once(app)
    assert app.verify() == 3000
    first = app.outputs(0)[0]
    assert json.loads(first.value).keys() == {"id", "probs", "note", "probs_raw"}
    assert [name for name, _ in first.headers] == ["h", "stream-can-version", "stream-can-state"]
    assert app.checked.labels["learned"] + app.checked.labels["learned late"] == 3000


def test_counts_given_otherwise_are_refused_by_name(broker: Broker) -> None:
    """They would be ignored; without any it goes on."""
    app = App(broker.bootstrap_servers, partitions=1, train_counts=[4, 3, 2, 1])
    fill(app, 20)
    run_once(app)
    says = r"train_counts: \[0.14.*\] here, \[0.35.*\] in it; take train_counts out, which keeps"
    worker = Worker(app.settings(train_counts=[1, 2, 3, 4]))
    with pytest.raises(DeniedError, match=says):
        worker.check()
    for role in (worker.work, worker.learns):
        assert role is not None
        role.close()
        role.client.close(leave=False)
    with pytest.raises(DeniedError, match=says):
        app.worker(train_counts=[1, 2, 3, 4]).join()
    fill(app, 20, 1, first=20)
    run_once(app, train_counts=None)
    assert app.verify() == 40


def test_check_names_the_settings_that_a_start_would_change(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, only the log of that start did."""
    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 20)
    run_once(app)
    caplog.set_level("INFO")
    for changes, named in (({}, False), ({"half_life": 300.0}, True)):
        caplog.clear()
        worker = Worker(app.settings(**changes))
        assert worker.check() == 1
        for role in (worker.work, worker.learns):
            assert role is not None
            role.close()
            role.client.close(leave=False)
        assert ("settings change with this start: {'half_life': 300.0}" in caplog.messages) == named


def test_scores_are_divided_by_their_sum_and_counted(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False, normalise="always")
    scores = [9.0, 3.0, 6.0, 2.0]
    message = json.dumps({"id": 1, "probs": scores}).encode()
    produce(app.servers, [(app.given["input"], 0, b"k", message)] * 10)
    worker = run_once(app)
    assert app.verify() == 10
    for record in app.outputs(0):
        sent = json.loads(record.value)
        assert sent["probs_raw"] == scores
        assert abs(sum(sent["probs"]) - 1) < 1e-9
    sample = worker.metrics.registry.get_sample_value
    assert sample("stream_can_normalised_rows_total") == 10


def test_the_first_rounded_rows_are_named(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    values = [{"id": 1, "probs": probs} for probs in ([0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.2])]
    where = app.given["input"]
    produce(app.servers, [(where, 0, b"k", json.dumps(value).encode()) for value in values])
    run_once(app)
    told = f"from {where}-0 offset 0 on: rows divided by their sum; further ones are only counted"
    assert [text for text in caplog.messages if "divided" in text] == [f"{told}, see /metrics"]


def test_a_leader_that_knows_no_topic_yet_asks_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it gave nobody a partition, and nothing brought a new assignment about."""
    app, assign, asked = App(broker.bootstrap_servers), RangeOwners.assign, []

    def late(cluster: Any, members: Any) -> Any:
        asked.append(members)
        new = SimpleNamespace(partitions_for_topic=lambda topic: None)
        return assign(new if len(asked) == 1 else cluster, members)

    monkeypatch.setattr(RangeOwners, "assign", staticmethod(late))
    fill(app, 100)
    run_once(app)
    assert len(asked) >= 2
    assert app.verify() == 100
