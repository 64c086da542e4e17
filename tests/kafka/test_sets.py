"""Prediction sets of workers: by the log, across restarts, in what is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_can.app.look import Look
from stream_can.kafka.known import known
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import STAMP, App, fill, run_once
from tests.kafka.topics import produce, read


def shown(worker: Any) -> Any:
    look = Look(
        "app", "0", together=True, has_labels=True, health=worker.health, metrics=worker.metrics,
        known=lambda: known(worker.learned_log.replicas),
    )  # fmt: skip
    return look.status()


def test_outputs_have_sets_that_keep_their_promise(broker: Broker) -> None:
    """Every output and every entry, bit by bit, from the topics alone; three workers in turn."""
    app = App(broker.bootstrap_servers, sets=0.8, commit_every=100)
    for seed in range(3):
        fill(app, 1000, seed)
        worker = run_once(app, learned=1000 * (seed + 1))
    assert app.verify() == 3000
    assert app.checked.of_sets > 2000
    replica = app.checked.replicas[0]
    # Rows behind a worker's last label are in no entry; which those are, `verify` has compared.
    assert 2000 < replica.sets().rows <= 3000
    assert replica.sets().miss == 0.2
    outputs = [json.loads(r.value) for p in range(app.partitions) for r in app.outputs(p)]
    assert all({*one["set"]} <= {*app.given["classes"]} and one["set"] for one in outputs)
    status = shown(worker)
    assert status.sets == 0.8
    assert status.hour.set_labels > 500
    assert 0.7 < status.hour.set_kept < 0.95
    assert 1 <= status.hour.set_size < 3
    registry = worker.metrics.registry
    labels, kept, rows, classes = (
        registry.get_sample_value(f"stream_can_set_{name}_total")
        for name in ("labels", "kept", "rows", "classes")
    )
    assert status.hour.set_kept == kept / labels
    assert status.hour.set_size == classes / rows
    assert rows == 1000


def test_they_begin_and_end_with_the_setting(broker: Broker) -> None:
    """A worker that is deployed with another share changes it for all; one without ends it."""
    app = App(broker.bootstrap_servers)
    counted = []
    for seed, changes in enumerate(({}, {"sets": 0.9}, {"sets": 0.5}, {})):
        fill(app, 200, seed)
        # What was held before comes back where that is said.
        more = {"settings_generation": 9} if seed == 3 else {}
        worker = run_once(app, learned=200 * (seed + 1), **changes, **more)
        counted.append(worker.learned_log.replicas[0].terms.sets)
    assert counted == [None, 0.9, 0.5, None]
    for partition in range(app.partitions):
        there = ["set" in json.loads(record.value) for record in app.outputs(partition)]
        assert there == [False] * 100 + [True] * 200 + [False] * 100


def test_models_have_their_own(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, sets=0.9, model="model", id="id")
    predictions, labels = [], []
    for i in range(300):
        message = {"id": i, "model": "ab"[i % 2], "probs": [0.4, 0.3, 0.2, 0.1]}
        predictions.append(
            (app.given["input"], 0, None, json.dumps(message).encode(), [], STAMP + i)
        )
        answer = json.dumps({"id": i, "label": "ad"[i % 2]}).encode()
        labels.append((app.given["labels"], 0, None, answer, [], STAMP + i + 30))
    produce(app.servers, predictions, labels)
    worker = run_once(app, commit_every=50)
    replica = worker.learned_log.replicas[0]
    kept = {name.model: replica.sets(name) for name in replica.lanes}
    assert [kept[model].rows for model in "ab"] == [150, 150]
    # Of b the least likely class of four is always the label.
    assert len(kept["a"].set_one([0.4, 0.3, 0.2, 0.1])[0]) < 4
    last = [json.loads(r.value) for r in read(app.servers, app.given["output"], 0)][-1]
    assert last["model"] == "b"
    assert "d" in last["set"]


def test_other_formats_are_refused(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    with pytest.raises(ValueError, match=r'sets: needs format = "json"'):
        app.settings(sets=0.9, format="avro", schema_registry="http://127.0.0.1:1")
    with pytest.raises(ValueError, match=r"sets: 1\.5, expected the share"):
        app.settings(sets=1.5)
