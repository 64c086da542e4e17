"""A learner of sparse rows: the bits of the bare corrector, its scores, its snapshots."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import InvalidPrediction, Learner, UnknownClass, snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.learner import Events, LateLabel, read_labels, read_sent, write_labels
from stream_can.sparse import SparseCorrector

pytestmark = pytest.mark.fast

NAMES = [f"class {i}" for i in range(12)]


def row_of(rng):
    k = int(rng.integers(1, 5))
    p = rng.dirichlet(np.ones(k + 1))[:k]
    return dict(zip(rng.permutation(NAMES)[:k].tolist(), p.tolist(), strict=True))


def foretold(corrector, row, rest, y):
    """Rank and probability of a label, by the public calls."""
    if y in row:
        names = list(row)
        before = [one for one in names if (-row[one], names.index(one)) < (-row[y], names.index(y))]
        return len(before), row[y]
    return -1, corrector.tail(y, list(row), max(rest, 0.0))


@given(seed=st.integers(0, 2**32), data=st.data())
def test_it_is_the_bare_corrector_with_a_memory(seed, data):
    rng = np.random.default_rng(seed)
    learner = Learner(SparseCorrector("any", max_classes=20))
    bare = SparseCorrector("any", max_classes=20)
    kept, sums = {}, np.zeros(5)
    for step in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["row", "row", "label", "alone", "again", "snapshot"]))
        if what == "row":
            row, id = row_of(rng), f"id {rng.integers(8)}"
            better = learner.process(id, row)
            other, receipt = bare.process_one(row, receipt=True)
            assert better == other
            kept[id] = [row, other, receipt, None]
        elif what in ("label", "again") and kept:
            id, y = data.draw(st.sampled_from(sorted(kept))), str(rng.choice(NAMES))
            row, other, receipt, known = kept[id]
            assert learner.label(id, y) == ("learned" if known is None else "repeated")
            bare.ids_of([y])
            if known is None:
                rank, p = foretold(bare, other.probabilities, other.rest, y)
                sums += [1, rank == 0, 0 <= rank < 5, rank >= 0, -math.log(max(p, 1e-6))]
                bare.learn_one(row, y, receipt=receipt)
                kept[id][3] = y
        elif what == "alone":
            y = str(rng.choice(NAMES))
            assert learner.label(f"none {step}", y) == "unknown"
            bare.learn_one(None, y)
        elif what == "snapshot":
            data_ = learner.to_bytes()
            learner = Learner.from_bytes(data_)
            assert learner.to_bytes() == data_
    assert learner.live[None, None].corrector.to_bytes() == bare.to_bytes()
    if kept:
        raw, sent = learner.scores[None, None]
        assert raw.n == sent.n == sums[0]
        assert sent.sums() == pytest.approx(sums)


def test_many_at_once_are_one_by_one():
    rng = np.random.default_rng(0)
    rows = [row_of(rng) for _ in range(60)]
    labels = [
        LateLabel(i - 9, str(rng.choice(NAMES)), due=i) for i in range(10, 60)
    ]  # fmt: skip
    one, many = (Learner(SparseCorrector("any", max_classes=20)) for _ in range(2))
    each = []
    for i, row in enumerate(rows):
        for label in labels:
            if label.due == i:
                one.label(label.id, label.label)
        each.append(one.process(i, row))
    many.live[None, None].corrector.ids_of(one.live[None, None].corrector.names)
    found = many.play(range(60), rows, labels)
    assert found.rows == each
    assert found.outcomes == ["learned"] * 50
    assert many.scores[None, None][1].summary() == one.scores[None, None][1].summary()


def test_a_label_brings_its_row_or_has_one_in_the_same_call():
    rng = np.random.default_rng(1)
    row, other = row_of(rng), row_of(rng)
    learner, bare = (SparseCorrector("any", max_classes=20) for _ in range(2))
    learner = Learner(learner)
    labels = [LateLabel("gone", "class 3", row=other), LateLabel(None, "class 5", due=1, of=0)]
    learner.play(["a"], [row], labels)
    bare.ids_of([*row, "class 3", *other, "class 5"])
    bare.learn_one(other, "class 3")
    _, receipt = bare.process_one(row, receipt=True)
    bare.learn_one(row, "class 5", receipt=receipt)
    names = learner.live[None, None].corrector.names
    assert sorted(names) == sorted(bare.names)
    better, expected = learner.process("b", row), bare.process_one(row)
    assert better.probabilities == pytest.approx(expected.probabilities)
    assert better.rest == pytest.approx(expected.rest)


def test_the_raw_score_of_a_label_that_is_not_listed_is_its_share_of_what_is_left():
    learner = Learner(SparseCorrector(10))
    learner.process(1, {3: 0.5, 4: 0.2})
    learner.label(1, 7)
    raw, _ = learner.scores[None, None]
    assert raw.log_loss == pytest.approx(-math.log(0.3 / 8))
    assert (raw.listed, raw.accuracy, raw.top5) == (0, 0, 0)


def test_memory_is_bounded():
    learner, row = Learner(SparseCorrector("any", max_classes=20), recent_mb=0.05), {"a": 0.5}
    for i in range(300):
        learner.process(i, row)
    assert learner.bytes_kept <= 0.05 * 2**20
    assert 50 < learner.waiting < 110
    assert learner.label(0, "a") == "unknown"
    assert learner.label(299, "a") == "learned"


def test_what_there_is_not_is_refused_and_nothing_has_changed():
    learner = Learner(SparseCorrector("any", max_classes=3))
    learner.process("a", {"x": 0.5})
    before = learner.to_bytes()
    for call in (
        lambda: learner.process("b", {"x": 0.5}, model="m"),
        lambda: learner.label("a", "x", version="v"),
        lambda: learner.process("b", {"x": 0.5}, segments={"tenant": "t"}),
    ):
        with pytest.raises(ValueError, match=r"sparse rows|not declared"):
            call()
    with pytest.raises(InvalidPrediction, match=r"row 1: probabilities sum to 1\.5"):
        learner.process_many(["b", "c"], [{"y": 0.5}, {"x": 1.5}])
    with pytest.raises(UnknownClass, match="label of 'a'"):
        learner.label("a", 7)
    assert learner.to_bytes() == before


@given(st.data())
def test_a_snapshot_that_was_changed_is_refused_or_goes_on(data):
    learner = Learner(SparseCorrector("any", max_classes=20))
    rng = np.random.default_rng(0)
    for i in range(6):
        learner.process(i, row_of(rng))
    learner.label(2, "class 1")
    whole = learner.to_bytes()
    (piece,) = snapshot.pieces_of(whole)
    head, rows = snapshot.decode(piece)
    changed = rows["rows.0"].view(np.int32).copy()
    at = data.draw(st.integers(0, changed.size - 1))
    changed.reshape(-1)[at] = data.draw(st.sampled_from([-1, 0, 1, 2, 99, 2**30, 0x7FF00000]))
    rows["rows.0"] = changed.view(np.float32)
    content, piece = snapshot.decode(whole).head, snapshot.encode(head, rows)
    try:
        again = Learner.from_bytes(snapshot.encode_pieces(content, [piece], 1))
    except SnapshotMismatch:
        return
    for i in range(6):
        again.label(i, "class 4")
    again.to_bytes()


@given(seed=st.integers(0, 2**32), data=st.data())
def test_a_state_and_what_was_sent_behind_it_make_the_same_learner(seed, data):
    """As a server's file has them: names that are new come with the batch that has them first."""
    rng = np.random.default_rng(seed)
    learner = Learner(SparseCorrector("any", max_classes=20))
    learner.keep_events()
    state, before, behind = learner.state(), [], []
    for step in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["row", "row", "label", "brings", "take", "state"]))
        if what == "row":
            learner.process(f"id {rng.integers(8)}", row_of(rng), time=float(step))
        elif what == "label":
            learner.label(f"id {rng.integers(8)}", str(rng.choice(NAMES)))
        elif what == "brings":
            learner.label(f"none {step}", str(rng.choice(NAMES)), row=row_of(rng))
        else:
            events = learner.take_events()
            told = events.sent.to_bytes(), write_labels(events.labels)
            behind.append(told)
            if what == "state":
                before, behind, state = [*before, *behind], [], learner.state()
    events = learner.take_events()
    behind.append((events.sent.to_bytes(), write_labels(events.labels)))
    again = Learner.from_state(state, [read_sent(sent) for sent, _ in before])
    again.keep_events()
    for sent, labels in behind:
        again.play_events(Events(read_sent(sent), read_labels(labels)))
    assert again.to_bytes() == learner.to_bytes()
