"""A topic's history into a snapshot, and a group that goes on where the history ended."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from stream_can import Corrector
from stream_can.kafka import DeniedError, UnreadableRecord
from stream_can.kafka.backfill import _merged, backfill
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.deferred import times_of
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import (
    CLASSES,
    STAMP,
    App,
    correctors_of,
    fill,
    label,
    prediction,
    run_once,
    state_of,
    write_config,
)
from tests.kafka.topics import produce, read


def test_a_clock_that_is_ahead_holds_back_none_behind_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, all behind it in its partition were learned five minutes late."""
    monkeypatch.setattr("stream_can.kafka.backfill.CHUNK", 30)
    app = App(broker.bootstrap_servers)
    topics = {kind: app.given[kind] for kind in ("input", "labels")}
    rng, records = random.Random(0), []
    for i in range(200):
        key, value, truth = prediction(rng, i)
        at, p = STAMP + 1000 * i, i % 2
        ahead = 300_000 if i in (21, 58, 120) else 0  # in the middle, and at the end of a chunk
        records.append((topics["input"], p, key, value, [], at + ahead))
        records.append((topics["labels"], p, key, label(truth), [], at + 2500 + ahead))
    produce(app.servers, records)
    readers = Readers(Options(app.given["bootstrap_servers"], {}))
    spans = {topic: readers.spans(topic) for topic in topics.values()}
    merged = [*_merged(readers, spans, times_of)]
    readers.close()
    assert len(merged) == len(records)
    latest = STAMP
    for one in merged:
        right = one.timestamp - (300_000 if one.key in (b"k21", b"k58", b"k120") else 0)
        assert right > latest - 10_000  # 4 records of a partition
        latest = max(latest, right)


@pytest.mark.parametrize("segments", [[], ["note"]])
def test_all_partitions_teach_one_corrector_in_the_order_of_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, segments: list[str]
) -> None:
    """As rows and labels one by one do: each row is corrected with all labels before it."""
    monkeypatch.setattr("stream_can.kafka.backfill.CHUNK", 300)
    app = App(broker.bootstrap_servers, segments=segments, label_partitions=3)
    n = 1000  # several chunks of each partition
    fill(app, n)
    found = backfill(app.settings())
    plain, sent = Corrector(CLASSES, segments=segments, segments_mb=0.5), {}
    records = [
        (record.timestamp, topic != app.given["input"], record)
        for topic, most in ((app.given["input"], 2), (app.given["labels"], 3))
        for p in range(most)
        for record in read(app.servers, topic, p)
    ]
    for _, is_label, record in sorted(records, key=lambda one: one[:2]):
        says = json.loads(record.value)
        if is_label:
            p, receipt, given = sent[record.key]
            plain.learn_one(p, says["label"], receipt=receipt, segments=given)
            continue
        given = {name: says[name] for name in segments} or None
        _, receipts = plain.correct_many([says["probs"]], receipt=True,
                                         segments=given and {"note": [says["note"]]})  # fmt: skip
        sent[record.key] = says["probs"], receipts[0], given
        plain.observe_one(says["probs"], segments=given)
    assert found.corrector.to_bytes() == plain.to_bytes()
    assert found.corrector.n_predictions == found.corrector.n_labels == n
    summary = found.to_dict()
    assert summary["predictions"] == summary["matched"] == summary["scored"] == n
    assert summary["after"]["log_loss"] < summary["before"]["log_loss"]
    assert found.changes is not None
    loss = found.changes.log_loss
    assert loss.before == pytest.approx(summary["before"]["log_loss"])
    assert loss.after == pytest.approx(summary["after"]["log_loss"])
    assert loss.stretches >= 3
    # Nothing was sent and nothing committed.
    assert [app.outputs(p) for p in (0, 1)] == [[], []]
    assert state_of(app) is None
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
    said = [json.loads(one.value) for p in (0, 1) for one in new.outputs(p)]
    assert len(said) == 500
    first = json.loads(new.outputs(0)[0].value)
    raw = first["probs_raw"]
    began = Corrector.from_bytes(warm.read_bytes())
    assert first["probs"] == began.correct_one(raw).tolist()
    assert first["probs"] != Corrector(CLASSES).correct_one(raw).tolist()
    (now,) = correctors_of(new).values()
    assert now.n_labels == began.n_labels + 500


def test_a_started_group_goes_on_where_the_history_ended(broker: Broker) -> None:
    """Labels that come for predictions before the hand-over are joined all the same."""
    app = App(broker.bootstrap_servers, recent_mb=0.4)
    fill(app, 2000)
    orphans = [
        (app.given["input"], p, b"late%d" % p, prediction(random.Random(p), 9000)[1], [],
         STAMP + 2050)
        for p in (0, 1)
    ]  # fmt: skip
    produce(app.servers, orphans)
    found = backfill(app.settings(), start_group=True)
    before = found.corrector.n_labels
    later = [(app.given["labels"], p, b"late%d" % p, label("b"), [], STAMP + 3000) for p in (0, 1)]
    produce(app.servers, later)
    rng = random.Random(5)
    more = [
        (app.given["input"], i % 2, *prediction(rng, i)[:2], [], STAMP + 4000 + i)
        for i in range(600)
    ]
    produce(app.servers, more)
    worker = run_once(app)
    assert [len(app.outputs(p)) for p in (0, 1)] == [300, 300]
    (corrector,) = correctors_of(app).values()
    assert corrector.n_labels == before + 2
    assert corrector.n_predictions == 2602
    matched = worker.metrics.registry.get_sample_value(
        "stream_can_labels_total", {"result": "matched"}
    )
    assert matched == 2  # they found their predictions
    with pytest.raises(DeniedError, match="has members or has committed"):
        backfill(app.settings(), start_group=True)


def test_the_command_gives_a_verdict(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers)
    fill(app, 1200)
    command = [sys.executable, "-m", "stream_can", "backfill", write_config(app, tmp_path)]
    done = subprocess.run(
        [*command, "--snapshot", tmp_path / "warm.bin"], capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["verdict"].startswith("Use it")
    assert f"log loss {found['before']['log_loss']:.4f} before" in found["verdict"]
    assert Corrector.from_bytes((tmp_path / "warm.bin").read_bytes()).n_labels == 1200
    labels = Counter(
        json.loads(one.value)["label"]
        for p in (0, 1)
        for one in read(app.servers, app.given["labels"], p)
    )
    (name, n), *_ = labels.most_common(1)
    assert backfill(app.settings()).commonest == (name, n / 1200)


def test_a_history_that_cannot_be_read_is_counted_or_stops(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    fill(app, 100)
    produce(app.servers, [(app.given["input"], 1, b"k", b"{", [], STAMP + 50)])
    found = backfill(app.settings())
    assert found.tally.counts["dead_letters"] == 1
    assert read(app.servers, f"{app.id}-dead-letters", 1) == []
    with pytest.raises(UnreadableRecord, match=f"offset 50 of {app.id}-in-1"):
        backfill(app.settings(errors="fail"))


def test_models_are_taught_each_by_itself(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, model="model", version="version")

    def more(rng: random.Random, says: dict[str, object]) -> None:
        says |= {"model": rng.choice("ab"), "version": "1" if says["id"] < 500 else "2"}  # type: ignore[operator]

    fill(app, 1000, more=more)
    found = backfill(app.settings(), start_group=True)
    said = found.to_dict()["lanes"]
    assert [(one["model"], one["version"]) for one in said] == [
        ("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")
    ]  # fmt: skip
    assert all(one["labels"] > 150 for one in said)
    run_once(app)
    learned = {name: one.n_labels for name, one in correctors_of(app).items()}
    assert learned == {(one["model"], one["version"]): one["labels"] for one in said}
