"""A learner of multilabel rows: equal to a plain one, whatever the order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Learner, SnapshotMismatch, UnknownClass
from stream_can.multilabel import LabelScores, MultiLabelCorrector
from tests.examples import examples

pytestmark = pytest.mark.fast

LABELS = ["a", "b", "c"]


class Plain:
    """Dictionaries, and a corrector of one row at a time."""

    def __init__(self, wait=0.0):
        self.correctors, self.recent, self.held, self.wait = {}, {}, [], wait
        self.lone = {}
        self.clock, self.changed = float("-inf"), 0
        self.raw, self.sent = LabelScores(3), LabelScores(3)

    def corrector(self, lane):
        if lane not in self.correctors:
            same = [one for (model, _), one in self.correctors.items() if model == lane[0]]
            best = None
            for one in same:
                more = best is None or one.effective_sample_size >= best.effective_sample_size
                best = one if more else best
            self.correctors[lane] = best.successor() if best else MultiLabelCorrector(LABELS)
        return self.correctors[lane]

    def alone(self, id, lane, y):
        if id is not None:
            known = self.lone.get((id, lane), np.full(3, -1))
            self.changed += bool(((known >= 0) & (y >= 0) & (known != y)).any())
            y = np.where(known < 0, y, -1)
            if (y >= 0).any():
                self.lone[id, lane] = np.where(known < 0, y, known)
        told = bool((y >= 0).any())
        if told and lane is None and self.correctors.keys() <= {(None, None)}:
            self.corrector((None, None)).learn_one(None, y)

    def correct(self, id, p, lane, time):
        if time is not None:
            self.clock = max(self.clock, time)
            while due := [one for one in self.held if one[3] < self.clock - self.wait]:
                first = min(due, key=lambda one: one[3])
                self.held.remove(first)
                self.alone(*first[:3])
        t = self.corrector(lane).threshold
        row, receipt = self.corrector(lane).process_one(p, receipt=True)
        self.said = {LABELS[k] for k in range(3) if row[k] >= t}
        if id is None:
            return row
        self.recent[lane, id] = [p, row, receipt, np.full(3, -1)]
        for one in [one for one in self.held if one[0] == id and one[1] in (None, lane)][:1]:
            self.held.remove(one)
            self.teach(lane, id, one[2])
        return row

    def teach(self, lane, id, y):
        p, row, receipt, known = self.recent[lane, id]
        self.changed += bool(((known >= 0) & (y >= 0) & (known != y)).any())
        new = np.where(known < 0, y, -1)
        if (new < 0).all():
            return False
        self.recent[lane, id][3] = np.where(known < 0, y, known)
        self.corrector(lane).learn_one(p, new, receipt=receipt)
        self.raw.add([p], [new])
        self.sent.add([row], [new])
        return True

    def label(self, id, y, lane, time):
        found = [key for key in self.recent if key[1] == id and lane in (None, key[0])]
        if found:
            return "learned" if any([self.teach(*key, y) for key in found]) else "repeated"
        if (id, lane) in self.lone and not ((self.lone[id, lane] < 0) & (y >= 0)).any():
            self.alone(id, lane, y)
            return "repeated"
        for i, (other, of, known, when) in enumerate(self.held):
            if (other, of) == (id, lane):
                self.changed += bool(((known >= 0) & (y >= 0) & (known != y)).any())
                self.held[i] = id, lane, np.where(known < 0, y, known), when
                return "held" if ((known < 0) & (y >= 0)).any() else "repeated"
        if self.wait and time is not None and id is not None:
            self.held.append((id, lane, y, time))
            return "held"
        self.alone(id, lane, y)
        return "unknown"


def test_a_label_that_says_nothing_is_not_known_again():
    learner, nothing = Learner(MultiLabelCorrector(LABELS)), np.full(3, -1)
    assert learner.label_many(["x"] * 2, [nothing] * 2) == ["unknown"] * 2
    assert learner.label("x", np.array([1, -1, -1])) == "unknown"
    assert learner.label_many(["x"] * 2, [nothing, np.array([1, -1, -1])]) == ["repeated"] * 2
    assert learner.label("x", np.array([-1, 0, -1])) == "unknown"


@given(st.data())
@settings(max_examples=examples(30), deadline=None)
def test_equals_the_plain_one_in_any_order(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    lanes = data.draw(st.sampled_from([[(None, None)], [("m", "1"), ("m", "2"), ("n", None)]]))
    wait, cuts = data.draw(st.sampled_from([0.0, 3.0])), data.draw(st.booleans())
    learner, plain = Learner(MultiLabelCorrector(LABELS), label_wait=wait), Plain(wait)
    clock = 0.0
    for _ in range(data.draw(st.integers(1, 60))):
        clock += float(rng.choice([0.0, 1.0, 4.0]))
        lane = lanes[rng.integers(len(lanes))]
        ids = [[1, "x", b"y", None][k] for k in rng.integers(4, size=3)]
        if rng.random() < 0.5:
            P = rng.beta(0.5, 0.5, (3, 3))
            expected, said = [], []
            for id, p in zip(ids, P, strict=True):
                expected.append(plain.correct(id, p, lane, clock))
                said.append(plain.said)
            found = learner.process_many(ids, P, model=lane[0], version=lane[1], times=[clock] * 3)
            assert found.rows.tolist() == np.array(expected).tolist()
            assert [set(names) for names in found.sets] == said
            continue
        Y = rng.choice([-1, 0, 1], (3, 3))
        named = None if rng.random() < 0.3 or lane == (None, None) else lane
        model, version = named or (None, None)
        expected = [plain.label(id, y, named, clock) for id, y in zip(ids, Y, strict=True)]
        found = learner.label_many(ids, list(Y), model=model, version=version, times=[clock] * 3)
        assert found == expected
        if cuts:
            learner = Learner.from_bytes(learner.to_bytes(), LABELS)
    assert learner.correctors == (
        {name: one.to_bytes() for name, one in plain.correctors.items()}
        or {(None, None): MultiLabelCorrector(LABELS).to_bytes()}
    )
    assert learner.changed_labels == plain.changed
    for which, expected in ((0, plain.raw), (1, plain.sent)):
        mine = sum((scores[which] for scores in learner.scores.values()), LabelScores(3))
        assert mine.sums() == pytest.approx(expected.sums())


def test_labels_as_people_write_them():
    learner = Learner(MultiLabelCorrector(LABELS))
    bare = MultiLabelCorrector(LABELS)
    p = [0.7, 0.2, 0.4]
    _, receipt = bare.process_one(p, receipt=True)
    learner.process("id", p)
    assert learner.label("id", {"a": True, "c": False}) == "learned"
    bare.learn_one(p, [1, -1, 0], receipt=receipt)
    assert learner.label("id", ["a", "b"]) == "learned"  # of b alone nobody had said
    bare.learn_one(p, [-1, 1, -1], receipt=receipt)
    assert learner.label("id", {"c"}) == "repeated"
    assert learner.changed_labels == 1  # it has c
    assert learner.label("id", np.array([1, 1, 0])) == "repeated"
    assert learner.correctors == {(None, None): bare.to_bytes()}
    assert learner.alarms == learner.episodes == {}
    assert learner.classes == ("a", "b", "c")
    before = learner.to_bytes()
    for bad in ("a", 1, None, ["x"], {"x": True}, [["a"]], np.array([1, 2, 0]), b"\0\0"):
        with pytest.raises(UnknownClass, match="label of 'id': "):
            learner.label("id", bad)
    assert learner.to_bytes() == before


def test_what_several_labels_do_not_have_is_refused():
    with pytest.raises(ValueError, match="segments: 't' was not declared"):
        Learner(MultiLabelCorrector(2)).process(1, [0.1, 0.2], segments={"t": "x"})
    data = Learner(MultiLabelCorrector(2)).to_bytes()
    with pytest.raises(SnapshotMismatch, match="2 labels, expected 3"):
        Learner.from_bytes(data, 3)
