"""Correction is switched off and on between topics, on a real broker."""

from __future__ import annotations

import json
import random
import time
from typing import Any

from stream_can.app.model_settings import ModelSettings
from stream_can.app.status_report import StatusReport
from stream_can.kafka.corrections import OFF_HEADER
from tests.kafka.broker.broker import Served
from tests.kafka.streams import App, caught_up, fill, prediction, rows_in_memory, rows_of
from tests.kafka.topics import produce, read
from tests.programs import wait


def is_off(record: Any) -> bool:
    return tuple(OFF_HEADER) in [tuple(one) for one in record.headers]


def first_problem(status_report: StatusReport) -> str:
    return status_report.status().problems[0].what


def test_history_goes_out_as_it_came_and_is_learned(broker: Served) -> None:
    """Switched on again, outputs are those that they would have been, to the bit."""
    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 200)
    running = app.worker(correct=False)
    caught_up(app, running)
    assert first_problem(running.worker.status_report).startswith("Correction is switched off")
    assert running.worker.status_report.status().passes == ["*"]
    running.stop()
    fill(app, 200, 1, first=200)
    running = app.worker()
    caught_up(app, running)
    assert running.worker.status_report.status().passes == []
    running.stop()
    came = rows_of(read(app.servers, app.given["input"], 0))
    outputs = app.outputs(0)
    assert rows_of(outputs) == came[:200] + rows_in_memory(app)[200:]
    assert [is_off(one) for one in outputs] == [True] * 200 + [False] * 200


def test_workers_follow_the_process_that_learns(broker: Served) -> None:
    """For one model here; and what a worker has itself counts for it alone."""
    app = App(
        broker.bootstrap_servers, partitions=2, model="model",
        models={"m": ModelSettings(correct=False)},
    )  # fmt: skip
    fill(app, 100, more=lambda rng, says: says.update(model=rng.choice("mn")))
    learner = app.learner()
    worker, other = app.worker("1", learn=False, models={}), None
    try:
        caught_up(app, learner, worker)
        rng, now = random.Random(1), int(1000 * time.time())
        for i in range(1000, 1020):
            key, value, _ = prediction(rng, i)
            says = json.loads(value) | {"model": "mn"[i // 2 % 2]}
            message = json.dumps(says).encode()
            produce(app.servers, [(app.given["input"], i % 2, key, message, [], now)])
        wait("answers", lambda: sum(len(app.outputs(p)) for p in range(2)) == 120)
        worker.stop()
        other = app.worker("1", learn=False, correct=False, models={})
        produce(app.servers, [(app.given["input"], 0, b"last", message, [], now)])
        wait("answers", lambda: sum(len(app.outputs(p)) for p in range(2)) == 121)
    finally:
        for one in (learner, worker, *filter(None, [other])):
            one.stop()
    sent = {one.key: one for p in range(2) for one in read(app.servers, app.given["input"], p)}
    for one in (one for p in range(2) for one in app.outputs(p)):
        says = json.loads(sent[one.key].value or b"")
        off = one.key == b"last" or says["model"] == "m"
        assert is_off(one) == off
        assert (rows_of([one])[0] == says["probs"]) == off
