"""Nobody can end learning for good: whatever lies in its topics, or lies there no more."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError

from stream_can import Learner
from stream_can.kafka import DeniedError, Worker
from stream_can.kafka.client.assigned import Assigned
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import RetryError, errors_as
from stream_can.kafka.correcting_role import CorrectingRole
from stream_can.kafka.engine import States
from stream_can.kafka.headers import MARK_HEADER, NEXT_HEADER, STATE_HEADER
from stream_can.kafka.play_order import DueRecords, PlayOrder
from stream_can.kafka.queues import Queue
from stream_can.learner import read_sent
from stream_can.messages.records import Record
from tests.kafka.broker.broker import Broker, Served
from tests.kafka.recorder import Records
from tests.kafka.streams import (
    CLASSES,
    STAMP,
    App,
    caught_up,
    fill,
    label,
    prediction,
    state_of,
)
from tests.kafka.topics import produce, read
from tests.pages import ROOT
from tests.programs import wait


@pytest.mark.fast
def test_mutated_batches_and_labels() -> None:
    """TESTS of 10^5 and more: `python -m tests.kafka.mutated --count 100000`."""
    command = [sys.executable, "-m", "tests.kafka.mutated", "--count", "6000"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert min(seen.values()) > 50


def lone(app: App, n: int, id: Any) -> None:
    """Labels whose prediction is nowhere."""
    topic = app.given["labels"]
    produce(app.servers, [(topic, i % 2, id(i), label("a"), [], STAMP + i) for i in range(n)])


def test_labels_without_predictions_outgrow_a_record(broker: Served) -> None:
    """Before, a record of the memory was larger than its topic takes, and nobody learned again."""
    app = App(broker.bootstrap_servers, configs={"state": {"max.message.bytes": "20000"}})
    lone(app, 6000, lambda i: uuid.UUID(int=(i + 1) << 64 | i).bytes)
    fill(app, 200)
    running = app.learner(), app.worker(learn=False)
    caught_up(app, *running)
    state = state_of(app)
    assert state is not None
    assert len(state.index.memory) > 2
    for one in running:
        one.stop()
    fill(app, 100, seed=1, first=200)
    again = app.worker()
    caught_up(app, again)
    again.stop()
    app.verify()


def test_ids_beyond_a_kilobyte_are_neither_held_nor_kept(broker: Served) -> None:
    """Before, two labels with random keys of 600 kB ended learning."""
    app = App(broker.bootstrap_servers)
    fill(app, 100)
    rng = np.random.default_rng(0)
    lone(app, 4, lambda i: rng.bytes(600_000))
    row = json.dumps({"probs": [0.25] * 4}).encode()
    produce(app.servers, [(app.given["input"], 0, rng.bytes(1025), row, [], STAMP)])
    running = app.worker()
    caught_up(app, running)
    learner = running.learning().learner
    assert len(learner.to_bytes()) < 200_000
    assert learner.waiting == 100
    running.stop()
    letters = [read(app.servers, f"{app.id}-dead-letters", p) for p in range(2)]
    reasons = [
        dict(one.headers)["__connect.errors.exception.message"] for of in letters for one in of
    ]
    assert reasons == [b"id: 600,000 bytes, expected at most 1,024"] * 4
    assert sum(len(app.outputs(p)) for p in range(2)) == 101  # corrected all the same


def test_what_retention_deleted_is_not_sought(broker: Served) -> None:
    """Before, a learner that was away for longer than its topics keep could only be reset; and
    workers in a backlog would have waited for what it will never learn."""
    app = App(broker.bootstrap_servers)
    records = Records(app.servers, [f"{app.id}-{kind}" for kind in ("sent", "labels")])
    fill(app, 100)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    fill(app, 40, seed=1, first=100)
    alone = app.worker(learn=False)
    wait("corrected", lambda: sum(len(app.outputs(p)) for p in range(2)) == 140)
    alone.stop()
    for recorder in records.now.values():
        recorder.until_end()
        recorder.delete(recorder.positions)
    fill(app, 300, seed=2, first=140)
    again = app.worker()
    caught_up(app, again)
    assert again.corrector().n_labels == 100 + 300
    counted = again.worker.metrics.registry.get_sample_value("stream_can_lost_records_total")
    assert counted is not None
    assert counted > 40
    again.stop()
    assert app.verify(recorded=records.of()) == 440
    lost = {"rows to learn": 40, "labels": 40, "predictions that waited for a label": 0}
    assert app.checked.lost == lost
    records.stop()


def test_order_where_what_was_sent_is_deleted(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner goes on at the end of the input, and has answered nothing before it: what comes
    then waits for what is handed over."""
    app = App(broker.bootstrap_servers, partitions=1)
    records = Records(app.servers, [f"{app.id}-sent"])
    fill(app, 20)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    worker = app.worker("1", learn=False)
    now = int(1000 * time.time())
    topic, says = app.given["input"], [prediction(random.Random(i), i)[:2] for i in range(20, 25)]
    produce(app.servers, [(topic, 0, *one, [], now) for one in says])
    wait("they are corrected", lambda: len(app.outputs(0)) == 25)
    worker.stop()
    (recorder,) = records.now.values()
    recorder.until_end()
    recorder.delete(recorder.positions)
    fill(app, 300, seed=1, first=100)
    goes_on, take = threading.Event(), PlayOrder.take

    def waits(self: PlayOrder, most_rows: int) -> DueRecords:
        return take(self, most_rows) if goes_on.is_set() else DueRecords({}, {})

    monkeypatch.setattr(PlayOrder, "take", waits)
    running = app.worker()
    try:
        work = running.worker.work
        assert work is not None
        handler = work.handler
        wait("all is handed over", lambda: running.error or handler.at.get(0) == 325)
        for key, value in [prediction(random.Random(i), i)[:2] for i in range(500, 505)]:
            produce(app.servers, [(topic, 0, key, value, [], int(1000 * time.time()))])
            wait(
                "it is read",
                lambda: running.error or handler.held.by_partition.get(0) or handler.at[0] > 325,
            )
    finally:
        goes_on.set()
    caught_up(app, running)
    running.stop()
    keys = [one.key for one in read(app.servers, topic, 0)]
    assert [one.key for one in app.outputs(0)] == keys
    records.stop()


def test_input_that_retention_deleted_uncorrected(broker: Served) -> None:
    app = App(broker.bootstrap_servers)
    records = Records(app.servers, [f"{app.id}-{kind}" for kind in ("in", "sent")])
    fill(app, 100)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    fill(app, 40, seed=1, first=100)
    recorder = records.now[f"{app.id}-in"]
    recorder.until_end()
    recorder.delete(recorder.positions)
    with pytest.raises(DeniedError, match="are gone; --reset-offsets goes on"):
        app.worker().join()
    again = app.worker(reset_offsets=True)
    fill(app, 60, seed=2, first=140)
    caught_up(app, again)
    again.stop()
    assert app.verify(recorded=records.of()) == 160
    assert app.checked.lost["predictions to correct"] == 40
    records.stop()


def test_predictions_that_retention_deleted_wait_no_more(broker: Served) -> None:
    """They were learned, and are needed again by the next process: their labels find none."""
    app = App(broker.bootstrap_servers)
    records = Records(app.servers, [f"{app.id}-sent"])
    fill(app, 100, delay=1_000_000)
    fill(app, 100, seed=1, first=100)
    with_labels = app.given["labels"]
    running = app.worker()
    caught_up(app, running)
    running.stop()
    recorder = records.now[f"{app.id}-sent"]
    recorder.until_end()
    recorder.delete(recorder.positions)
    again = app.worker()
    for i in range(200, 260):
        fill(app, 1, seed=2, first=i)
    produce(app.servers, [(with_labels, 0, b"k7", label("b"), [], STAMP + 2_000_000)])
    caught_up(app, again)
    again.stop()
    assert app.verify(recorded=records.of()) == 260
    records.stop()


@pytest.mark.parametrize("kind", ["labels", "sent"])
def test_a_topic_that_is_made_again_is_read_from_its_beginning(
    own_broker: Broker, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, the new one was skipped up to the offset in the old one, without a word."""
    app = App(own_broker.bootstrap_servers)
    records = Records(app.servers, [f"{app.id}-{kind}"])
    fill(app, 100)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    app.close()
    if kind == "labels":  # which nobody reads
        lone(app, 10, lambda i: b"nobody's %d" % i)
    keep = {"retention.ms": "-1"} | (
        {"message.timestamp.type": "LogAppendTime"} if kind == "sent" else {}
    )
    records.make_again(f"{app.id}-{kind}", keep, 2)
    fill(app, 60, seed=1, first=100)
    again = app.worker()
    caught_up(app, again)
    assert again.corrector().n_labels == 160
    assert re.search(rf"{app.id}-{kind}-0: .* which was made again; it goes on at 0", caplog.text)
    again.stop()
    assert app.verify(recorded=records.of()) == 160
    assert app.checked.lost["labels"] == (10 if kind == "labels" else 0)
    records.stop()


@pytest.mark.parametrize("kind", ["labels", "sent"])
def test_a_topic_that_is_made_again_while_one_takes_over(
    own_broker: Broker, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the question for its id and that for its offsets. Before, the position in the old one
    was kept as one of the new, whose first labels were never learned."""
    app = App(own_broker.bootstrap_servers)
    topic = f"{app.id}-{kind}"
    records = Records(app.servers, [topic])
    fill(app, 100)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    app.close()
    made, ids = threading.Event(), Client.topic_ids

    def asked_too_early(client: Client, names: Any) -> dict[str, str]:
        found = ids(client, names)
        if topic in found and not made.is_set():
            keep = {"retention.ms": "-1"} | (
                {"message.timestamp.type": "LogAppendTime"} if kind == "sent" else {}
            )
            records.make_again(topic, keep, 2)
            fill(app, 60, seed=1, first=100)
            made.set()
        return found

    monkeypatch.setattr(Client, "topic_ids", asked_too_early)
    again = app.worker()
    wait("it is made again", lambda: again.error or made.is_set())
    caught_up(app, again)
    assert again.corrector().n_labels == 160
    again.stop()
    assert app.verify(recorded=records.of()) == 160
    records.stop()


def stands_still(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> threading.Event:
    """Wait until a method is called, which then waits until the event that is returned is set."""
    stands, goes_on, called = threading.Event(), threading.Event(), getattr(owner, name)

    def late(*args: Any) -> Any:
        stands.set()
        goes_on.wait()
        return called(*args)

    monkeypatch.setattr(owner, name, late)
    wait("it stands still", stands.is_set)
    return goes_on


def test_a_topic_that_is_made_again_between_two_polls(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And holds more by then than had been read of the old one. Before, what lies before that
    offset was skipped."""
    app = App(own_broker.bootstrap_servers)
    topic = f"{app.id}-labels"
    records = Records(app.servers, [topic])
    fill(app, 100)
    running = app.worker()
    caught_up(app, running)
    app.close()
    goes_on = stands_still(monkeypatch, Assigned, "poll")
    records.make_again(topic, {"retention.ms": "-1"}, 2)
    fill(app, 200, seed=1, first=100)
    goes_on.set()
    wait("all are learned", lambda: running.error or running.n_labels() == 300)
    running.stop()
    assert app.verify(recorded=records.of()) == 300
    records.stop()


def test_a_topic_that_is_made_again_otherwise_is_refused(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two polls, too. Before, it was taken by the process that ran, and refused by the next
    one."""
    app = App(own_broker.bootstrap_servers)
    topic = f"{app.id}-sent"
    records = Records(app.servers, [topic])
    fill(app, 100)
    running = app.learner(), app.worker("1", learn=False)
    caught_up(app, *running)
    app.close()
    running[1].stop()
    goes_on = stands_still(monkeypatch, Assigned, "poll")
    records.make_again(topic, {"retention.ms": "-1"}, 2)
    produce(app.servers, [(topic, i % 2, None, b"", [], STAMP) for i in range(1000)])
    lone(app, 10, lambda i: b"nobody's %d" % i)
    goes_on.set()
    says = r"message\.timestamp\.type=CreateTime; set it to LogAppendTime"
    with pytest.raises(DeniedError, match=says):
        running[0].join()
    records.stop()


@pytest.mark.fast
@pytest.mark.parametrize("kind", [LogTruncationError, OffsetOutOfRangeError])
def test_what_is_gone_is_named(kind: type[KafkaError]) -> None:
    """Before, the client's own words were, with objects in them."""
    says = "^the next record of in-0, in-1 is gone: .*, or the topic was made again$"
    error = kind({TopicPartition("in", 1): None, TopicPartition("in", 0): None})
    with pytest.raises(RetryError, match=says), errors_as(RetryError):
        raise error


def test_an_input_that_is_made_again_between_two_polls(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And holds more by then than had been read of the old one. Before, what lies before that
    offset was never corrected."""
    app = App(own_broker.bootstrap_servers)
    topic = app.given["input"]
    records = Records(app.servers, [topic])
    fill(app, 100)
    running = app.worker()
    caught_up(app, running)
    app.close()
    goes_on = stands_still(monkeypatch, CorrectingRole, "step")
    records.make_again(topic, {"retention.ms": "-1"}, 2)
    fill(app, 200, seed=1, first=100)
    goes_on.set()
    says = r"made again: the group has no offset there, though 50 were learned; --reset-offsets"
    with pytest.raises(DeniedError, match=says):
        running.join()
    says = r"offset there, though 50 were learned: it has expired, or .* made again; --reset-off"
    with pytest.raises(DeniedError, match=says):
        app.worker().join()
    checks = Worker(app.settings("check"))
    with pytest.raises(DeniedError, match=says):  # before, all was well
        checks.check()
    for role in (checks.work, checks.learns):
        assert role is not None
        role.close()
        role.client.close(leave=False)
    again = app.worker(reset_offsets=True)
    caught_up(app, again)
    assert again.corrector().n_labels == 300
    again.stop()
    assert app.verify(recorded=records.of()) == 300
    records.stop()


def test_batches_that_cannot_be_played_are_left_out(
    broker: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, one of an engine whose ids are floats ended every learner; and each was a log line,
    of however many."""
    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 50)
    running = app.worker()
    caught_up(app, running)
    learning = running.learning()
    (first, *_) = (one for one in read(app.servers, f"{app.id}-sent", 0) if one.value)
    good = read_sent(first.value)
    headers = [(MARK_HEADER, learning.mark.encode())]
    wrong = []
    for ids in ([1.5], [True], [{"a": 1}], [b"x" * 2000]):
        batch = good.part(0, 1)
        batch.ids[:] = ids
        wrong.append(batch.to_bytes())
    nonsense = good.part(0, 1)
    nonsense.versions[0].rows[:] = np.nan
    wrong.append(nonsense.to_bytes())
    produce(app.servers, [(f"{app.id}-sent", 0, None, value, headers, STAMP) for value in wrong])
    nexts = [b"", b"\xff\xff", b"-1", b"1.5", "\u00b2".encode(), b"9" * 24, b"9" * 5000]
    produce(app.servers, [
        (f"{app.id}-sent", 0, None, good.part(0, 1).to_bytes(),
         [*headers, (NEXT_HEADER, value)], STAMP)
        for value in nexts
    ])  # fmt: skip
    others = [(MARK_HEADER, b"another"), (STATE_HEADER, "\u00b2".encode())]
    produce(app.servers, [(f"{app.id}-sent", 0, None, first.value, others, STAMP)])
    fill(app, 50, seed=1, first=50)
    caught_up(app, running)
    assert running.corrector().n_labels == 100
    counted = running.worker.metrics.registry.get_sample_value("stream_can_left_out_batches_total")
    assert counted == len(wrong) + len(nexts)
    assert len(re.findall(rf"{app.id}-sent-0 offset \d+: .*; left out", caplog.text)) == 10
    assert caplog.text.count("others like these are counted alone, see /metrics") == 1
    running.stop()
    again = app.worker()
    assert again.learning().learner.waiting == 100
    again.stop()


def test_no_batch_says_more_of_the_input_than_it_holds(
    broker: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, what such a batch said counted: of an input that ended at 50, 10^12 were learned."""
    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 50)
    running = app.worker()
    caught_up(app, running)
    (first, *_) = (one for one in read(app.servers, f"{app.id}-sent", 0) if one.value)
    row = read_sent(first.value).part(0, 1).to_bytes()
    headers = [(MARK_HEADER, running.learning().mark.encode()), (NEXT_HEADER, b"%d" % 10**12)]
    produce(app.servers, [(f"{app.id}-sent", 0, None, row, headers, STAMP)])
    caught_up(app, running)
    state = state_of(app)
    assert state is not None
    assert state.index.inputs == {0: 50}
    assert f"header stream-can-next: {10**12}, but {app.id}-in-0 ends at 50" in caplog.text
    fill(app, 50, seed=1, first=50)
    caught_up(app, running)
    state = state_of(app)
    assert state is not None
    assert state.index.inputs == {0: 100}
    running.stop()


@pytest.mark.parametrize("id", [1.5, True, ("a",), b"x" * 1025])
def test_an_engine_refuses_odd_ids(broker: Served, id: Any) -> None:
    app = App(broker.bootstrap_servers, partitions=1)
    running = app.learner()
    wait("a state", lambda: state_of(app) is not None)
    with (
        States([app.servers], app.id) as states,
        pytest.raises((TypeError, ValueError), match=r"ids?: "),
    ):
        states.newest().correct([[0.25] * 4], ids=[id])
    running.stop()


def no_clock(i: int) -> float:
    return 0


def outage(
    app: App,
    ahead: Callable[[int], float] = no_clock,
    labels_ahead: Callable[[int], float] = no_clock,
    n: int = 3000,
) -> tuple[int, float]:
    """Ten minutes of predictions that nobody corrected, and the labels of every second one, two
    seconds later. Returns how many labels of rows whose clock is right are learned alone, and what
    is gained, in nats a label."""
    begin = time.time() - 600
    predictions, labels, right = [], [], 0
    rng = random.Random(0)
    for i in range(n):
        key, value, truth = app.predict(rng, i)
        when, off = begin + 600 * i / n, ahead(i)
        stamp = int(1000 * (when + off))
        predictions.append((app.given["input"], i % app.partitions, key, value, [], stamp))
        if i % 2:
            at = int(1000 * (when + 2 + labels_ahead(i)))
            labels.append((app.given["labels"], i // 2 % app.partitions, key, label(truth), [], at))
            right += not off
    produce(app.servers, predictions, labels)
    running = app.worker()
    caught_up(app, running)
    learner = running.learning().learner
    raw, corrected = learner.scores[None, None]
    running.stop()
    return right - raw.n, raw.log_loss - corrected.log_loss


@pytest.mark.long
def test_wrong_clocks_cost_their_own_rows_alone(broker: Served) -> None:
    """Before, one row in 250 that was five minutes ahead let two labels in three find nothing."""
    app = App(broker.bootstrap_servers, partitions=4)
    assert outage(app, lambda i: 300 if i % 125 == 7 else 0)[0] <= 0


def test_a_queue_is_due_by_what_lies_behind() -> None:
    queue, record = Queue(), Record("", 0, 0, 0, None, None)
    for when in (1, 301, math.nan, 2, 302, *range(3, 12)):
        queue.append(when, 0, record)
    due = []
    while queue.waiting:
        due.append(queue.time)
        queue.take()
    assert due == [1, 5, -math.inf, 2, 6, *range(3, 12)]


@pytest.mark.long
def test_wrong_clocks_of_labels_cost_their_own_labels_alone(broker: Served) -> None:
    """Before, those behind a label that was five minutes ahead waited for rows as late, which cost
    a quarter of the gain where the classes move on every two minutes."""

    def drifting(rng: random.Random, i: int) -> tuple[bytes, bytes, str]:
        key, value, truth = prediction(rng, i)
        return key, value, CLASSES[(CLASSES.index(truth) + i // 600) % 4]

    apps = [App(broker.bootstrap_servers, partitions=4) for _ in range(2)]
    for app in apps:
        app.predict = drifting
    _, right = outage(apps[0])
    alone, gained = outage(apps[1], labels_ahead=lambda i: 300 if i % 198 == 7 else 0)
    assert alone <= 0
    assert gained > 0.9 * right


def test_a_label_whose_clock_is_ahead_holds_back_none(broker: Served) -> None:
    """Before, those behind it in its partition waited for rows as late as it said: as long as rows
    kept coming, five minutes."""
    app = App(broker.bootstrap_servers, partitions=1)
    running, rng, sent = app.worker(), random.Random(0), 0

    def learned_while_rows_come() -> bool:
        nonlocal sent
        predictions, labels, now = [], [], int(1000 * time.time())
        for i in range(sent, sent + 20):
            key, value, truth = app.predict(rng, i)
            predictions.append((app.given["input"], 0, key, value, [], now))
            at = now + 300_000 * (i == 0)
            labels.append((app.given["labels"], 0, key, label(truth), [], at))
        sent += 20
        produce(app.servers, predictions, labels)
        return running.n_labels() > 100

    wait("learned while rows come", learned_while_rows_come)
    running.stop()


def test_the_end_of_a_transaction_is_no_record_to_wait_for(broker: Served) -> None:
    """Whoever writes the input in transactions leaves an offset behind the last row that no row
    has. Before, labels waited for what comes there: 0 of 50 were learned after 101 s."""
    app = App(broker.bootstrap_servers)
    topic, rng = app.given["input"], random.Random(0)
    producer = KafkaProducer(bootstrap_servers=app.servers, transactional_id=f"{app.id}-upstream")
    producer.init_transactions()
    producer.begin_transaction()
    labels = []
    for i in range(100):
        key, value, truth = app.predict(rng, i)
        stamp = STAMP + (600 * i if i % 2 else i)  # one partition ends a minute before the other
        producer.send(topic, value, key, None, i % 2, stamp)
        labels.append((app.given["labels"], 0, key, label(truth), [], STAMP + 50_000 + i))
    producer.commit_transaction()
    producer.close()
    produce(app.servers, labels)
    running = app.worker()
    wait("all labels", lambda: running.corrector().n_labels == 100)
    running.stop()


def test_another_wait_for_labels_is_in_force(broker: Served) -> None:
    app = App(broker.bootstrap_servers)
    fill(app, 20)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    again = app.worker(label_wait=120)
    wait("learns", lambda: again.worker.learns is not None and again.worker.learns.learning)
    state = again.learning().learner.state()
    assert Learner.from_state(state, [], whole=False)._joining.wait == 120
    again.stop()
