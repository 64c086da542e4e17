"""Prediction sets of workers: by the log, across restarts, in what is shown."""

from __future__ import annotations

import json

import pytest

from stream_can import Corrector
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import STAMP, App, correctors_of, fill, run_once, state_of
from tests.kafka.topics import produce, read
from tests.programs import wait


def test_outputs_have_sets_that_keep_their_promise(broker: Broker) -> None:
    """Every output and every state, bit by bit, from the topics alone; three workers in turn."""
    app = App(broker.bootstrap_servers, sets=0.8, commit_every=100)
    for seed in range(3):
        fill(app, 1000, seed, first=1000 * seed)
        worker = run_once(app, learned=1000 * (seed + 1))
    assert app.verify() == 3000
    (corrector,) = app.checked.correctors.values()
    assert corrector.set_counts == (3000, 3000)
    outputs = [json.loads(r.value) for p in range(app.partitions) for r in app.outputs(p)]
    assert all({*one["set"]} <= {*app.given["classes"]} and one["set"] for one in outputs)
    status = worker.status_report.status()
    assert status.sets == 0.8
    assert status.hour.set_labels > 500
    assert 0.7 < status.hour.set_kept < 0.95
    assert 1 <= status.hour.set_size < 3
    labels, kept, rows, classes = (
        worker.metrics.registry.get_sample_value(f"stream_can_set_{name}_total")
        for name in ("labels", "kept", "rows", "classes")
    )
    assert status.hour.set_kept == kept / labels
    assert status.hour.set_size == classes / rows
    assert rows == 1000


def begun_with(app: App) -> float | str | None:
    """The share that the newest state has."""
    state = state_of(app)
    return "none" if state is None else Corrector.from_bytes(state.begins[None]).sets


def test_they_begin_and_end_with_the_setting(broker: Broker) -> None:
    """One that learns with another share changes it for all; one without ends it."""
    app = App(broker.bootstrap_servers)
    for seed, share in enumerate((None, 0.9, 0.5, None)):
        changes = {} if share is None else {"sets": share}
        learner = app.learner("first", **changes)
        wait("a state", lambda share=share: begun_with(app) == share)
        learner.stop()
        fill(app, 200, seed, first=200 * seed)
        run_once(app, learned=200 * (seed + 1), **changes)
        (corrector,) = correctors_of(app).values()
        assert corrector.sets == share
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
    run_once(app)
    produce(app.servers, predictions[-1:])
    run_once(app)
    kept = correctors_of(app)
    assert [kept[model, None].set_counts[0] for model in "ab"] == [150, 151]
    # Of b the least likely class of four is always the label.
    assert len(kept["a", None].predict_set_one([0.4, 0.3, 0.2, 0.1])) < 4
    last = [json.loads(r.value) for r in read(app.servers, app.given["output"], 0)][-1]
    assert last["model"] == "b"
    assert "d" in last["set"]


def test_a_share_that_is_none_is_refused(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    with pytest.raises(ValueError, match=r"sets: 1\.5, expected a number > 0 and < 1: share"):
        app.settings(sets=1.5)
