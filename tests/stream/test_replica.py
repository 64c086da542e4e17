"""A log that begins anew under a task: nothing that was open for the old corrector goes on."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.stream import entry
from stream_can.stream.replica import BegunAnew, Replica
from stream_can.stream.task import Record, Task
from tests.stream.records import bare, label, prediction

pytestmark = [pytest.mark.fast, pytest.mark.release]

ROW = [0.7, 0.3]


class Log:
    """Entries in a row, each folded as it is written."""

    def __init__(self, corrector):
        self.replica, self.records = Replica(), []
        self.write(entry.start(corrector.to_bytes()))

    def write(self, *values):
        for value in values:
            offset = len(self.records)
            self.records.append(Record("log", 0, offset, 0, None, value))
            self.replica.fold(self.records[-1])

    def begin_anew(self, corrector):
        self.write(entry.start(corrector.to_bytes(), reset=True))

    def entries_of(self, task):
        part, end = task.take()
        return entry.entries(self.replica.corrector, self.replica.offset, [(0, part, end)])


def task_of(log, **options):
    return Task(log.replica, labels_topic="labels", **options)


@pytest.mark.parametrize(
    "classes", [["a", "b"], ["b", "a"], ["a", "b", "c"]], ids=["same", "swapped", "more"]
)
def test_a_task_of_before_takes_nothing_more(classes):
    log = Log(Corrector(["a", "b"]))
    task = task_of(log)
    task.handle([prediction(0, ROW, b"0"), prediction(1, ROW, b"1"), label(0, "a", b"0")])
    log.begin_anew(Corrector(classes))
    before = log.replica.corrector.to_bytes()
    assert task.stale
    for call in (
        lambda: task.handle([prediction(2, ROW, b"2"), label(1, "a", b"1")]),
        task.take,
        task.positions,
    ):
        with pytest.raises(BegunAnew, match="began anew at offset 1, and this task is of before"):
            call()
    assert task.next_prediction == 2
    assert log.replica.corrector.to_bytes() == before


@pytest.mark.parametrize("classes", [["a", "b"], ["b", "a"]], ids=["same", "swapped"])
def test_stored_positions_go_on_as_if_nothing_had_been_open(classes):
    log = Log(Corrector(["a", "b"]))
    first = [prediction(0, ROW, b"0"), label(0, "b", b"0")]
    rest = [prediction(1, ROW, b"1"), label(1, "a", b"1"), label(2, "a", b"0")]
    task = task_of(log)
    task.handle(first)
    log.write(*log.entries_of(task))
    stored = task.positions(log.replica.offset)
    task.handle(rest)  # sent, and never stored
    log.begin_anew(Corrector(classes))
    again = Task.from_bytes(stored, replica=log.replica, labels_topic="labels")
    assert not again.stale
    again.rebuild(first[:1])
    outputs = again.handle(rest).outputs
    fresh = Task(Corrector(classes), labels_topic="labels", next_prediction=1, next_label=1)
    (expected,) = fresh.handle(rest[:1]).outputs
    assert [o.value for o in outputs] == [expected.value]
    log.write(*log.entries_of(again))
    want = Corrector(classes)
    want.observe_one(ROW)
    single = np.array(ROW, np.float32)
    known = Corrector(classes).process_one(ROW, receipt=True)[1]
    want.learn_one(single, "a", receipt=known)
    got = log.replica.corrector
    assert got.n_labels == 1
    assert again.counts.repeated == 1  # of the prediction of before, which had its label then
    np.testing.assert_allclose(got.label_counts, want.label_counts)
    assert got.weights == pytest.approx(want.weights, rel=1e-6)


@pytest.mark.parametrize("classes", [["b", "a"], ["a", "b", "c"]], ids=["swapped", "more"])
def test_an_entry_of_before_that_is_committed_after_teaches_nothing(classes):
    """Another process that had not seen it yet: its columns are those of the old classes."""
    log = Log(Corrector(["a", "b"]))
    late = task_of(log)
    late.handle([prediction(0, ROW, b"0"), label(0, "a", b"0")])
    entries = log.entries_of(late)
    log.begin_anew(Corrector(classes))
    before = log.replica.corrector.to_bytes()
    log.write(*entries)
    assert log.replica.corrector.to_bytes() == before
    assert log.replica.offset == 3
    task = task_of(log)
    row = ROW + [0.0] * (len(classes) - 2)
    task.handle([prediction(1, row, b"1"), label(1, "a", b"1")])
    log.write(*log.entries_of(task))  # and what is of now does
    assert log.replica.corrector.label_counts.tolist() == [float(name == "a") for name in classes]
    # Whoever takes up in between, at any entry, makes the same of the rest.
    for k in range(2, 4):
        half = Log(Corrector(["a", "b"]))
        half.replica = Replica()
        for record in log.records[:k]:
            half.replica.fold(record)
        r = half.replica
        taken_up = Replica(Corrector.from_bytes(r.corrector.to_bytes()), r.offset, r.terms)
        for record in log.records[k:]:
            taken_up.fold(record)
        assert taken_up.corrector.to_bytes() == log.replica.corrector.to_bytes()


def test_a_changed_setting_leaves_tasks_as_they_are():
    records = [prediction(0, ROW, b"0"), label(0, "a", b"0")]
    changed, plain = Log(Corrector(["a", "b"])), Log(Corrector(["a", "b"]))
    one, other = task_of(changed), task_of(plain)
    assert bare(one.handle(records).outputs) == bare(other.handle(records).outputs)
    before = changed.replica.corrector
    changed.write(entry.settings({"half_life": 700.0}))
    assert changed.replica.corrector is not before
    assert not one.stale
    changed.write(*changed.entries_of(one))
    assert changed.replica.corrector.label_counts.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("limit", [1, 600, 1 << 26])
def test_processes_that_fold_a_log_with_columns_have_the_same_bits(limit):
    """Two processes, a partition each, in turn; whoever takes up in between makes the same of the
    rest; values appear in the order of the log, and are dropped in it."""
    rng = np.random.default_rng(limit)
    corrector = Corrector(["a", "b"], segments=["x", "y"], segments_mb=limit / (1 << 20))
    log = Log(corrector)
    other = Replica()
    tasks = [Task(log.replica, labels_topic="labels") for _ in range(2)]
    folded, dropped, waits = [], 0, ([], [])
    for step in range(12):
        for partition, task in enumerate(tasks):
            records, waiting = [], waits[partition]
            for i in range(step * 5, step * 5 + 5):
                p = float(rng.random())
                values = {"x": int(rng.integers(12)), "y": f"{partition}-{rng.integers(3)}"}
                records.append(prediction(i, [p, 1 - p], b"%d" % i, **values))
                waiting.append(i)
                at = waiting.pop(max(0, len(waiting) - 1 - int(rng.integers(8))))
                records.append(label(i, "ab"[int(rng.integers(2))], b"%d" % at, x="none of it"))
            task.handle(records)
        parts = [(p, *task.take()) for p, task in enumerate(tasks)]
        log.write(*entry.entries(log.replica.corrector, log.replica.offset, parts, 400))
        dropped = log.replica.corrector.evicted_values
    for record in log.records:
        other.fold(record)
        folded.append(other.corrector.to_bytes() if other.started else b"")
    assert folded[-1] == log.replica.corrector.to_bytes()
    assert log.replica.corrector.n_labels == 120
    assert (dropped > 0) == (limit < 1 << 26)
    kept = log.replica.corrector.segment_values("x")
    assert "none of it" not in kept
    assert len(kept) == (12 if limit == 1 << 26 else len(kept))
    for k in range(1, len(log.records)):
        taken_up = Replica(Corrector.from_bytes(folded[k - 1]), k)
        for record in log.records[k:]:
            taken_up.fold(record)
        assert taken_up.corrector.to_bytes() == folded[-1]


def test_positions_and_what_is_stored_of_the_input_go_on_with_their_values():
    """A restart between a prediction and its label: the values are read again from the input."""
    log = Log(Corrector(["a", "b"], segments=["x"]))
    records = [prediction(i, ROW, b"%d" % i, x=f"tenant {i}") for i in range(4)]
    task = task_of(log)
    task.handle(records)
    log.write(*log.entries_of(task))
    again = Task.from_bytes(
        task.positions(log.replica.offset), replica=log.replica, labels_topic="labels"
    )
    again.rebuild(records)
    again.handle([label(0, "b", b"2", x="tenant 3")])
    log.write(*log.entries_of(again))
    assert list(log.replica.corrector.segment_values("x")) == ["tenant 2"]


def test_a_log_that_begins_anew_with_other_columns_leaves_those_of_before_behind():
    log = Log(Corrector(["a", "b"], segments=["x"]))
    task = task_of(log)
    task.handle([prediction(0, ROW, b"0", x="AA", y="NL"), label(0, "a", b"0")])
    late = log.entries_of(task)
    log.begin_anew(Corrector(["a", "b"], segments=["y"]))
    log.write(*late)
    assert task.stale
    fresh = task_of(log)
    fresh.handle([prediction(1, ROW, b"1", x="AA", y="NL"), label(1, "a", b"1")])
    log.write(*log.entries_of(fresh))
    assert log.replica.corrector.segments == ("y",)
    assert list(log.replica.corrector.segment_values("y")) == ["NL"]
    assert log.replica.corrector.n_labels == 1
