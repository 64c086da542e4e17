"""Prediction sets of a stream: those of a loop in a pipe; by a log, a function of its entries."""

from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector, LabelRequests
from stream_can.kafka import shared
from stream_can.messages.fields import Fields
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Record
from stream_can.method.promise import miss_of
from stream_can.stream import entry
from stream_can.stream.entry import FleetTerms, entries
from stream_can.stream.identity import Identity
from stream_can.stream.lanes import Fleet
from stream_can.stream.replica import Replica
from stream_can.stream.sets import LogSets, Told, opened_sets, packed_sets
from stream_can.stream.task import Task
from stream_can.trust.sets import Belief, PredictionSets
from tests.examples import examples
from tests.trust.oracle import OracleSets, bin_of, scores

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c"]
WHO = Identity("app", "in", "out", "labels", "probs", "probs_raw", "label", "id", (*CLASSES,))


def records(seed, n, delay=20, rate=1.0, **more):
    """Predictions and the labels that come so much later, in one order."""
    rng = np.random.default_rng(seed)
    found, labels = [], 0
    for i in range(n + delay):
        if i < n:
            p = rng.dirichlet(np.ones(3) * 0.6)
            message = {"probs": p.tolist()} | more
            key = b"%d" % i
            found.append(Record("in", 0, i, 1000 + i, key, json.dumps(message).encode()))
        j = i - delay
        if j >= 0 and np.random.default_rng([seed, j]).random() < rate:
            row = json.loads(found[[r.key for r in found].index(b"%d" % j)].value)["probs"]
            y = np.random.default_rng([seed, j, 1]).choice(3, p=np.array(row) / sum(row))
            message = json.dumps({"label": CLASSES[y]}).encode()
            found.append(Record("labels", 0, labels, 1000 + i, b"%d" % j, message))
            labels += 1
    return found


def cut(items, cuts):
    """Pieces of these lengths, over and over."""
    at = 0
    for k in range(len(items)):
        if at >= len(items):
            return
        size = cuts[k % len(cuts)]
        yield items[at : at + size]
        at += size


def said(outputs):
    return [json.loads(out.value) for out in outputs]


@given(st.integers(0, 99), st.lists(st.integers(1, 40), min_size=1), st.sampled_from([0.5, 0.9]))
@settings(max_examples=examples(10), deadline=None)
def test_a_task_sends_the_sets_of_a_loop(seed, cuts, kept):
    """However the records are cut."""
    everything = records(seed, 60)
    task = Task(Corrector(CLASSES), labels_topic="labels", sets=kept)
    outputs = []
    for piece in cut(everything, cuts):
        outputs += said(task.handle(piece).outputs)
    loop, sent = PredictionSets(3, miss_of(kept)), {}
    answers = iter(outputs)
    for record in everything:
        if record.topic == "in":
            answer = next(answers)
            names, ticket = loop.set_one(answer["probs"])
            sent[record.key] = answer["probs"], ticket
            assert answer["set"] == [CLASSES[k] for k in names]
        else:
            row, ticket = sent[record.key]
            loop.learn_one(row, CLASSES.index(json.loads(record.value)["label"]), ticket)
    assert msgspec.json.encode(task.lane.sets.level) == msgspec.json.encode(loop.level)
    assert task.lane.sets.set_one([0.2, 0.3, 0.5])[0] == loop.set_one([0.2, 0.3, 0.5])[0]


def test_only_labels_that_were_asked_for_at_random_teach():
    requests = LabelRequests(0.5, seed=1)
    task = Task(Corrector(CLASSES), labels_topic="labels", sets=0.9, requests=requests)
    everything = records(1, 200, delay=0)
    asked = {}
    for piece in cut(everything, [2]):
        for out in task.handle(piece).outputs:
            asked[out.key] = json.loads(out.value).get("ask")
    assert task.set_tally[2] == sum(why == "random" for why in asked.values()) > 20
    assert "margin" in asked.values()


def test_rounded_answers_have_sets_of_what_is_sent():
    task = Task(Corrector(CLASSES), fields=Fields(digits=1), labels_topic="labels", sets=0.5)
    answers = said(task.handle(records(2, 40)).outputs)
    loop = PredictionSets(3, 0.5)
    inside, _ = loop.set_checked(np.array([answers[0]["probs"]]))
    assert {*answers[0]["set"]} == {c for c, there in zip(CLASSES, inside[0], strict=True) if there}


@pytest.mark.parametrize("kept", [0.0, 1.0, -1, math.nan])
def test_a_share_that_is_none(kept):
    with pytest.raises(ValueError, match=r"sets: .*expected the share that sets promise"):
        Task(Corrector(CLASSES), sets=kept)


def test_another_share_begins_anew_and_none_sends_none():
    task = Task(Corrector(CLASSES), labels_topic="labels", sets=0.9)
    everything = records(4, 60)
    task.handle(everything[:80])
    data = task.to_bytes()
    other = Task.from_bytes(data, labels_topic="labels", sets=0.5)
    assert other.lane.sets.rows == 0
    assert all(one.ticket is None for _, one in other.lane.recent)
    without = Task.from_bytes(data, labels_topic="labels")
    assert all("set" not in one for one in said(without.handle(everything[80:]).outputs))


# ---- by a log


class Log:
    """Entries in a row, and their fold."""

    def __init__(self, fleet=None, sets=0.9):
        self.replica, self.records = Replica(), []
        self.write(entry.start(Corrector(CLASSES).to_bytes(), identity=WHO, fleet=fleet))
        self.write(entry.settings({"sets": sets}, app=WHO.mark, fleet=fleet))

    def write(self, value):
        offset = len(self.records)
        self.records.append(Record("log", 0, offset, offset, None, value))
        return self.replica.fold(self.records[-1])

    def take(self, task):
        """What a task has to teach becomes entries."""
        parts, end = task.take_all()
        for mark, part in parts:
            for data in entries(
                part.corrector, self.replica.offset, [(0, part, end)], app=WHO.mark, lane=mark
            ):
                assert self.write(data) is None


@given(st.integers(0, 99), st.lists(st.integers(1, 60), min_size=1))
@settings(max_examples=examples(6), deadline=None)
def test_by_a_log_sets_are_those_of_what_is_folded(seed, cuts):
    """A loop that learns at the entries alone says the same, but for single precision."""
    log, everything = Log(), records(seed, 90)
    task = Task(log.replica, labels_topic="labels")
    slow, rows, labels, sent = OracleSets(3), [], [], {}
    for piece in cut(everything, cuts):
        answers = iter(said(task.handle(piece).outputs))
        theta = slow.theta() if slow.rows else None
        for record in piece:
            if record.topic == "in":
                answer = next(answers)
                row = np.array(answer["probs"])
                at = OracleSets(3).set_one(row)[1][0] if theta is None else theta
                s = scores(row)
                want = {c for c, one in zip(CLASSES, s, strict=True) if one <= at}
                want.add(CLASSES[row.argmax()])
                near = np.abs(s - at).min() < 1e-4
                assert near or {*answer["set"]} == want
                sent[record.key] = row, (at, len(slow.rows) + len(rows))
                rows.append(row)
            else:
                row, ticket = sent[record.key]
                labels.append((row, CLASSES.index(json.loads(record.value)["label"]), ticket))
        log.take(task)
        for row in rows:
            slow.rows.append((bin_of(scores(row)), row))
        for row, y, ticket in labels:
            slow.learn_one(row, y, ticket)
        rows, labels = [], []
        assert log.replica.sets().level == pytest.approx(slow.level(), rel=1e-4)


def test_whoever_reads_the_log_has_the_same_bits():
    log = Log()
    task = Task(log.replica, labels_topic="labels")
    for piece in cut(records(7, 300), [50]):
        task.handle(piece)
        log.take(task)
    late = Replica()
    for record in log.records:
        assert late.fold(record) is None
    assert late.sets().to_bytes() == log.replica.sets().to_bytes()
    stored = shared.unpack(shared.pack(log.replica))
    assert stored.sets().to_bytes() == late.sets().to_bytes()
    assert stored.terms.sets == 0.9
    assert late.sets().rows == 300
    kept = task.set_tally[3] / task.set_tally[2]
    assert task.set_tally[2] == 300
    assert 0.84 < kept < 0.97


def test_the_share_is_a_setting_of_the_log():
    log = Log()
    task = Task(log.replica, labels_topic="labels")
    everything = records(5, 100)
    task.handle(everything[:120])
    log.take(task)
    assert log.replica.sets().miss == 0.1
    held = log.replica.terms.held
    log.write(entry.settings({"sets": 0.5}, app=WHO.mark))
    assert log.replica.sets().miss == 0.5
    assert log.replica.sets().rows == 0
    assert len(log.replica.terms.held) == len(held) + 1
    # What was sent under the other share teaches these sets nothing of its labels.
    sent = {one.key for one in everything[:120] if one.topic == "in"}
    task.handle([one for one in everything[120:] if one.topic == "in" or one.key in sent])
    log.take(task)
    assert log.replica.sets().rows == 100 - len(sent) > 0
    assert task.counts.matched == len(sent)
    assert log.replica.sets().level == pytest.approx(0.5)
    log.write(entry.settings({"sets": None}, app=WHO.mark))
    assert log.replica.sets() is None
    assert log.replica.terms.held[-1] == held[0]
    log.write(entry.settings({"half_life": 77.0, "sets": 0.8}, app=WHO.mark))
    assert log.replica.sets().half_life == 77.0


def test_lanes_have_sets_of_their_own():
    fleet = FleetTerms(5)
    log = Log(fleet)
    options = {"fields": Fields(model="model"), "fleet": Fleet({}, False, None)}
    task = Task(log.replica, labels_topic="labels", **options)
    everything = [*records(1, 80, model="x")]
    for piece in cut(everything, [30]):
        task.handle(piece)
        log.take(task)
    (name,) = log.replica.lanes
    assert name == LaneName("x", "")
    assert log.replica.sets(name).rows == 80
    of_lanes, at = shared.records(log.replica, {})
    stored = shared.unpack(shared.pack(log.replica, at), of_lanes)
    assert stored.sets(name).to_bytes() == log.replica.sets(name).to_bytes()
    log.write(entry.settings({"sets": 0.5}, app=WHO.mark, fleet=fleet))
    assert log.replica.sets(name).miss == 0.5


def test_without_sets_nothing_is_different():
    """Entries and shared records are the bytes that they were."""
    log = Log(sets=None)
    task = Task(log.replica, labels_topic="labels")
    task.handle(records(1, 50))
    log.take(task)
    assert all(b"sets" not in one.value for one in log.records if one.offset != 1)
    assert b"sets" not in shared.pack(log.replica)
    assert log.replica.terms.held == Replica(Corrector(CLASSES)).terms.held


BAD = [
    ({"bins": b"\1"}, "buffer size"),
    ({"bins": b"\1\0\1\0", "belief": np.ones(2, "<f4").tobytes()}, "bins that are none"),
    ({"bins": b"\xff\xff", "belief": np.ones(1, "<f4").tobytes()}, "out of range"),
    ({"bins": b"\1\0", "belief": np.array([np.nan], "<f4").tobytes()}, "out of range"),
    ({"bins": b"\1\0", "belief": np.array([-1], "<f4").tobytes()}, "out of range"),
    ({"known": np.ones(3, "<f4").tobytes(), "before": bytes(24)}, "2 labels, and sets of 3"),
    ({"known": np.ones(2, "<f4").tobytes()}, "2 labels, and sets of 2"),
    ({"known": np.full(2, 7, "<f4").tobytes(), "before": bytes(16)}, "no probability"),
    ({"known": np.ones(2, "<f4").tobytes(), "before": b"\xff" * 16}, "no probability"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "why"), BAD)
def test_an_entry_that_cannot_be(parts, why):
    with pytest.raises(ValueError, match=why):
        opened_sets(LogSets(0.1, 5, **parts), 2)


def test_a_bad_entry_teaches_nothing():
    log = Log()
    task = Task(log.replica, labels_topic="labels")
    task.handle(records(1, 50))
    before = log.replica.corrector.to_bytes()
    parts, end = task.take_all()
    ((_, part),) = parts
    (data,) = entries(part.corrector, log.replica.offset, [(0, part, end)], app=WHO.mark)
    one = entry.read(data)
    bad = msgspec.structs.replace(one, sets=LogSets(0.1, 5, b"\1"))
    left = log.write(msgspec.msgpack.encode(bad))
    assert left is not None
    assert "does not fit" in left.reason
    assert log.replica.corrector.to_bytes() == before
    left = log.write(entry.settings({"sets": 1.5}, app=WHO.mark))
    assert "sets: 1.5" in left.reason
    assert log.replica.terms.sets == 0.9


@given(st.lists(st.none() | st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 2**40))),
       st.integers(0, 30))  # fmt: skip
@settings(deadline=None)
def test_what_an_entry_says_comes_back(told, n):
    belief = Belief()
    belief.add(np.random.default_rng(0).dirichlet(np.ones(3), n))
    known = [None if one is None else Told(*one) for one in told]
    packed = packed_sets(0.1, belief, known)
    if packed is None:
        assert not n
        assert not any(known)
        return
    found = opened_sets(packed, len(known))
    assert found.belief.rows == n
    assert found.belief.sums == pytest.approx(belief.sums, rel=1e-6)
    for one, back in zip(known, found.told or [None] * len(known), strict=True):
        assert (one is None) == (back is None)
        if one is not None:
            assert (back.missed, back.row) == (one.missed, one.row)
            assert back.p == pytest.approx(one.p, rel=1e-6, abs=2e-30)
