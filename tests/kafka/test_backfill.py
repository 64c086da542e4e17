"""A topic's history into a snapshot, and a group that goes on where the history ended."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from stream_can import Corrector, SnapshotMismatch
from stream_can.kafka import DeniedError, Worker
from stream_can.kafka.backfill import backfill
from stream_can.kafka.newest import newest
from stream_can.stream.task import Task
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import CLASSES, STAMP, App, caught_up, fill, label, prediction, run_once
from tests.kafka.topics import produce, read
from tests.programs import wait


def by_hand(app: App) -> tuple[Corrector, dict[int, Task]]:
    """The same history, sorted all at once and taken one by one."""
    worker = Worker(app.settings())
    worker.check()
    corrector, s = worker.start.corrector(), worker.settings
    tasks = {p: Task(corrector, **worker.start.task_options()) for p in range(app.partitions)}
    records = [
        (record.timestamp, topic != s.input, record.partition, record)
        for topic in (s.input, s.labels)
        for p in range(app.partitions)
        for record in read(app.servers, topic or "", p)
    ]
    # The partitions of one topic never have the same timestamp here, so the order is one.
    for _, _, partition, record in sorted(records, key=lambda found: found[:3]):
        tasks[partition].handle([record])
    return corrector, tasks


@pytest.mark.parametrize("segments", [[], ["note"]])
def test_all_partitions_teach_one_corrector_in_the_order_of_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, segments: list[str]
) -> None:
    monkeypatch.setattr("stream_can.kafka.backfill.CHUNK", 300)
    app = App(broker.bootstrap_servers, segments=segments)
    n = 2000  # four chunks of each partition
    fill(app, n)
    found = backfill(app.settings())
    corrector, tasks = by_hand(app)
    assert found.corrector.to_bytes() == corrector.to_bytes()
    assert found.corrector.n_predictions == found.corrector.n_labels == n
    for name in segments:
        assert set(found.corrector.segment_values(name)) == {"", "ü", "üü"}
    summary = found.to_dict()
    assert summary["predictions"] == summary["matched"] == summary["scored"] == n
    hits = sum(task.sent_scores.accuracy * task.sent_scores.n for task in tasks.values())
    assert summary["after"]["accuracy"] == pytest.approx(hits / n)
    assert summary["after"]["log_loss"] < summary["before"]["log_loss"]
    # Nothing was sent and nothing committed.
    assert [app.outputs(p) for p in (0, 1)] == [[], []]
    assert newest(f"{app.id}-state", [app.servers]) == {}
    json.dumps(summary)


def test_the_snapshot_is_what_every_partition_starts_from(broker: Broker, tmp_path: Path) -> None:
    """History of one application, deployment of another, with its own topics."""
    old = App(broker.bootstrap_servers)
    fill(old, 2000)
    warm = tmp_path / "warm.bin"
    warm.write_bytes(backfill(old.settings()).corrector.to_bytes())
    new = App(broker.bootstrap_servers, classes=None, classes_from_file=str(warm))
    fill(new, 500, seed=1)
    run_once(new)
    assert new.verify() == 500
    first = new.outputs(0)[0]
    raw = json.loads(first.value)["probs_raw"]
    assert (
        json.loads(first.value)["probs"]
        == Corrector.from_bytes(warm.read_bytes()).correct_one(raw).tolist()
    )
    assert json.loads(first.value)["probs"] != Corrector(CLASSES).correct_one(raw).tolist()


def test_a_started_group_goes_on_where_the_history_ended(broker: Broker) -> None:
    """Labels that come for predictions before the hand-over are joined all the same."""
    app = App(broker.bootstrap_servers, recent_mb=0.05)
    fill(app, 2000)
    orphans = [
        (app.given["input"], p, b"late", prediction(random.Random(p), 9000)[1], [], STAMP + 2050)
        for p in (0, 1)
    ]
    produce(app.servers, orphans)
    found = backfill(app.settings(), start_group=True)
    begun = {p: task.positions() for p, task in found.tasks.items()}

    later = [(app.given["labels"], p, b"late", label("b"), [], STAMP + 3000) for p in (0, 1)]
    produce(app.servers, later)
    rng = random.Random(5)
    more = [
        (app.given["input"], i % 2, *prediction(rng, i)[:2], [], STAMP + 4000 + i)
        for i in range(600)
    ]
    produce(app.servers, more)
    worker = run_once(app)
    assert app.verify(begun=begun) == 600
    (log,) = app.checked.replicas.values()
    assert log.corrector.n_labels == found.corrector.n_labels + 2
    for p in (0, 1):
        assert len(app.outputs(p)) == 300
        assert worker.tasks[p].counts.matched == 1001  # "late" found its prediction
    inspected = newest(f"{app.id}-state", [app.servers])
    assert inspected.keys() == {"shared"}
    _, stream = inspected["shared"]
    assert stream["partitions"][f"{app.id}-in-1"]["next_prediction"] == 1301
    assert stream["learned"] >= stream["partitions"][f"{app.id}-in-1"]["learned"]
    with pytest.raises(DeniedError, match="has members or committed offsets"):
        backfill(app.settings(), start_group=True)


def test_a_history_that_cannot_be_read_is_counted_or_stops(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    fill(app, 100)
    produce(app.servers, [(app.given["input"], 1, b"k", b"{", [], STAMP + 50)])
    found = backfill(app.settings())
    assert found.counts.dead_letters == 1
    assert read(app.servers, f"{app.id}-dead-letters", 1) == []
    with pytest.raises(DeniedError, match=f"offset 50 of {app.id}-in-1"):
        backfill(app.settings(errors="fail"))


@pytest.mark.parametrize("learn", ["together", "apart"])
def test_what_a_worker_has_learned_is_seen_from_outside(broker: Broker, learn: str) -> None:
    app = App(broker.bootstrap_servers, partitions=3, learn=learn)
    fill(app, 900)
    running = app.worker()
    caught_up(app, running)
    replicas = running.worker.learned_log.replicas
    wait("all learned", lambda: sum(r.corrector.n_labels for r in replicas.values()) == 900)
    while_it_runs = newest(f"{app.id}-state", [app.servers])
    running.stop()
    found = newest(f"{app.id}-state", [app.servers])
    names = ["shared"] if learn == "together" else [f"shared/{p}" for p in range(3)]
    assert list(found) == list(while_it_runs) == names
    states = {number: replica.corrector.to_bytes() for number, replica in replicas.items()}
    assert [corrector.to_bytes() for corrector, _ in found.values()] == list(states.values())
    partitions = {}
    for replica, (_, stream) in zip(replicas.values(), found.values(), strict=True):
        assert stream["learned"] == replica.offset
        partitions |= stream["partitions"]
    assert list(partitions) == [f"{app.id}-in-{p}" for p in range(3)]
    for stream in partitions.values():
        assert stream["next_prediction"] == stream["next_label"] == 300
        assert stream["counts"]["labels"] == 300


def test_what_is_no_snapshot_is_named(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    with pytest.raises(DeniedError, match=f"topic '{app.id}-nowhere' does not exist"):
        newest(f"{app.id}-nowhere", [app.servers])
    produce(app.servers, [(f"{app.id}-state", 1, b"key", b"garbage")])
    with pytest.raises(SnapshotMismatch, match=f"{app.id}-state-1 offset 0"):
        newest(f"{app.id}-state", [app.servers])


def test_tombstones_of_state_are_passed_over(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    produce(app.servers, [(f"{app.id}-state", 0, b"key", None)])
    assert newest(f"{app.id}-state", [app.servers]) == {}
