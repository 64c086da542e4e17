"""What was sent before a restart is scored, and what was asked for is open, as without one."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from stream_can.app.known import Committed
from stream_can.kafka import Worker
from stream_can.kafka.backfill import backfill
from stream_can.stream.lane import Lane
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import CLASSES, STAMP, App, caught_up, label, prediction, run_once, scores
from tests.kafka.topics import produce

LATE = 600_000


def send(app: App, numbers: range) -> None:
    """Predictions of which nobody has a label yet."""
    rng = random.Random(0)
    made = [prediction(rng, i) for i in range(numbers.stop)]
    produce(app.servers, [
        (app.given["input"], i % app.partitions, made[i][0], made[i][1], [], STAMP + i)
        for i in numbers
    ])  # fmt: skip


def send_labels(app: App, numbers: range, step: int = 1) -> None:
    """The labels of every ``step``-th of them, ten minutes later."""
    rng = random.Random(0)
    made = [prediction(rng, i) for i in range(numbers.stop)]
    produce(app.servers, [
        (app.given["labels"], i % app.partitions, made[i][0], label(made[i][2]), [],
         STAMP + LATE + i)
        for i in numbers[::step]
    ])  # fmt: skip


def truths(n: int) -> list[str]:
    rng = random.Random(0)
    return [prediction(rng, i)[2] for i in range(n)]


def scored(*workers: Worker) -> dict[str, float]:
    """What these workers scored, in the words of `scores`."""
    found: dict[str, float] = dict.fromkeys(
        ("n", "hits before", "hits after", "loss before", "loss after"), 0
    )
    for one in (one for worker in workers for one in committed(worker)):
        found["n"] += one.scored
        for stage in ("before", "after"):
            found[f"hits {stage}"] += one.hits[stage]
            found[f"loss {stage}"] += one.log_loss[stage]
    return found


def committed(worker: Worker) -> list[Committed]:
    return list(worker.metrics.partitions.values())


def requests(worker: Worker) -> list[tuple[int, int | None] | None]:
    return [one.requests for one in committed(worker)]


@pytest.mark.parametrize(
    "settings", [{}, {"raw": ""}, {"id": "id"}, {"digits": 3}, {"learn": "apart"}]
)
def test_what_was_sent_before_a_restart_is_scored_when_its_label_comes(
    broker: Broker, settings: dict[str, Any]
) -> None:
    """Before, it was not: nothing of it was known but the raw row."""
    app, n = App(broker.bootstrap_servers, **settings), 600
    send(app, range(n))
    before = run_once(app)
    assert scored(before)["n"] == 0
    if settings.get("id"):
        rng = random.Random(0)
        made = [prediction(rng, i) for i in range(n)]
        produce(app.servers, [
            (app.given["labels"], i % 2, None, json.dumps({"id": i, "label": made[i][2]}).encode())
            for i in range(n)
        ])  # fmt: skip
    else:
        send_labels(app, range(n))
    after = run_once(app)
    if settings.get("raw") == "":
        assert scored(after)["n"] == n
        return
    truth = truths(n)
    expected = scores(app, lambda message: truth[message["id"]])
    assert scored(after) == pytest.approx(expected, rel=1e-12)


def test_scores_across_restarts_are_those_of_one_worker(broker: Broker) -> None:
    """Labels before each restart and behind it, in transactions that cut them anywhere."""
    app, n = App(broker.bootstrap_servers, commit_every=37), 900
    workers = []
    for k in range(3):
        send(app, range(n * k // 3, n * (k + 1) // 3))
        workers.append(run_once(app))
        send_labels(app, range(n * k // 3, n * (k + 1) // 3), 1 + k)
    workers.append(run_once(app))
    known = {i for k in range(3) for i in range(n * k // 3, n * (k + 1) // 3)[:: 1 + k]}
    truth, found = truths(n), scored(*workers)
    assert found["n"] == len(known)
    hits = sum(
        truth[message["id"]] == CLASSES[message["probs"].index(max(message["probs"]))]
        for p in range(2)
        for record in app.outputs(p)
        if (message := json.loads(record.value))["id"] in known
    )
    assert found["hits after"] == hits


def test_what_was_asked_for_is_open_until_its_label_comes_whoever_asked(broker: Broker) -> None:
    """Before, a new process knew of no open request, and no label answered one."""
    app, n = App(broker.bootstrap_servers, ask=0.1), 1000
    send(app, range(n))
    first = run_once(app)
    asked = {
        json.loads(record.value)["id"]: json.loads(record.value)["ask"]
        for p in range(2)
        for record in app.outputs(p)
        if "ask" in json.loads(record.value)
    }
    assert sum(one[0] for one in requests(first) if one) == len(asked) > 50
    send_labels(app, range(n // 2))
    second = run_once(app)
    late = [i for i in asked if i >= n // 2]
    assert sum(one[0] for one in requests(second) if one) == len(late)
    registry = second.metrics.registry
    answered = registry.get_sample_value("stream_can_label_requests_answered_total")
    assert answered == len(asked) - len(late)
    fair = [i for i, reason in asked.items() if reason == "random"]
    assert scored(second)["n"] == sum(i < n // 2 for i in fair)
    # What was answered before this restart is not open, and the oldest is the oldest of the others.
    send(app, range(n, n + 2))
    running = app.worker()
    caught_up(app, running)
    running.stop()
    of_late = requests(running.worker)
    new = sum(
        "ask" in json.loads(record.value)
        for p in range(2)
        for record in app.outputs(p)
        if json.loads(record.value)["id"] >= n
    )
    assert sum(one[0] for one in of_late if one) == len(late) + new
    for p, one in enumerate(of_late):
        assert one is not None
        assert one[1] == STAMP + min(i for i in late if i % 2 == p)


def test_a_restore_reads_no_outputs_of_long_ago(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction with a timestamp of 1970 is no reason to begin with the first output."""
    monkeypatch.setattr("stream_can.kafka.recall.BESIDES", 0)
    app = App(broker.bootstrap_servers, partitions=1, recent_mb=0.002)
    send(app, range(3000))
    produce(app.servers, [(app.given["input"], 0, b"old", b'{"probs": [1, 0, 0, 0]}', [], 0)])
    run_once(app)
    read, recall = 0, Lane.recall

    def counting(lane: Lane, outputs: list[Any]) -> None:
        nonlocal read
        read += len(outputs)
        recall(lane, outputs)

    monkeypatch.setattr(Lane, "recall", counting)
    send_labels(app, range(3000))
    worker = run_once(app)
    assert 20 < scored(worker)["n"] < 100
    assert scored(worker)["n"] <= read < 500


def test_backfill_scores_what_a_worker_scores(broker: Broker) -> None:
    """Before correction the same; after it a backfill has learned each label at once, a worker
    when its transaction was committed."""
    app, n = App(broker.bootstrap_servers), 1500
    send(app, range(n))
    send_labels(app, range(n), 3)
    tasks = backfill(app.settings()).tasks.values()
    found = scored(run_once(app))
    assert sum(task.raw_scores.n for task in tasks) == found["n"] == n / 3
    assert sum(task.raw_scores.hits for task in tasks) == found["hits before"]
    loss = sum(task.raw_scores.log_loss_sum for task in tasks)
    assert found["loss before"] == pytest.approx(loss, rel=1e-12)
