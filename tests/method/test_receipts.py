"""Receipts: what they give a label is the same however they were kept."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Corrector, InvalidPrediction
from stream_can.method import receipt_checks
from stream_can.method import receipts as room

pytestmark = pytest.mark.fast

KINDS = ["plain", "fitted", "columns", "fitted, columns", "single", "known mix"]
ROWS = dict(zip(KINDS, [7, 5, 9, 7, 3, 8], strict=True))


def corrector_of(m, kind):
    columns = ["x"] if "columns" in kind else ()
    paths, prior = ["raw"] if kind == "single" else None, None
    if kind == "known mix":
        prior = 2 ** np.arange(m)
    corrector = Corrector(m, segments=columns, paths=paths, prior=prior)
    if "fitted" in kind:
        rng = np.random.default_rng(m)
        corrector.fit(rng.dirichlet(np.ones(m), 40), np.arange(40) % m)
    return corrector


def made(m, kind="plain", n=7):
    rng = np.random.default_rng(m)
    P, corrector = rng.dirichlet(np.ones(m), n), corrector_of(m, kind)
    _, receipts = corrector.process_many(P, receipt=True)
    assert corrector.n_sent == ROWS[kind]
    return receipts, rng.integers(m, size=n)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [1, 2, 5])
def test_what_a_receipt_gave_is_the_same_however_it_was_kept(m, kind):
    if m == 1 and "fitted" in kind:
        return  # fit needs two classes
    rows = ROWS[kind]
    receipts, ys = made(m, kind)
    assert receipts.shape == (len(ys), room.size(m, rows))
    want = room.gave_all(receipts, ys, rows)
    for receipt, y, known in zip(receipts, ys, want, strict=True):
        each = receipt[:-1].reshape(rows, m)
        assert (known[:-1] == each[:, y]).all()
        assert known[-1] == (receipt[-1] if each[-1].argmax() == y else -receipt[-1])
    assert want.shape == room.none_known(len(ys), rows).shape
    assert (want == room.brought(receipts, ys, m, rows=rows)).all()
    single = [room.gave_row(receipts, i, y, rows) for i, y in enumerate(ys)]
    kept = [
        room.gave(room.kept(receipt.tobytes()), y, rows)
        for receipt, y in zip(receipts, ys, strict=True)
    ]
    assert single == kept == [row.tobytes() for row in want]
    assert (room.joined(kept, rows=rows) == want).all()
    receipt_checks.require_probabilities(abs(want))


def test_a_receipt_that_does_not_say_what_was_on_top_is_none():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    one, other = Corrector(3), Corrector(3)
    for p in P:
        _, receipt = one.process_one(p, receipt=True)
        other.process_one(p)
        receipt[6 * 3] = np.nan  # of the calibrated row
        one.learn_one(p, 1, receipt=receipt)
        other.learn_one(p, 1)
    assert one.to_bytes() == other.to_bytes()


def test_what_is_gone_is_not_known():
    blank = room.blank(2, 3)
    assert room.kept(blank[0].tobytes()) is None
    known = room.joined([room.gave(None, 1), room.gave_row(blank, 1, 2)])
    assert np.isnan(known).all()
    assert known.shape == room.none_known(2).shape
    assert np.isnan(room.brought(blank, np.array([0, 2]), 3)).all()


def test_a_class_that_appeared_since_was_given_nothing():
    receipts, _ = made(3, n=2)
    known = room.brought(receipts, np.array([3, 2]), 4)
    assert (known[0, :-1] == 0).all()
    assert known[0, -1] == -receipts[0, -1]  # another class was on top
    assert (known[1] == room.gave_all(receipts, np.array([2, 2]))[1]).all()
    with pytest.raises(InvalidPrediction, match=r"shape \(2, 22\), expected .* \(2, 36\)"):
        room.brought(receipts, np.array([3, 2]), 5, fewest=5)


def test_receipts_that_give_no_probability_are_refused_by_row_and_nothing_is_learned():
    P = np.full((2, 3), 1 / 3)
    corrector = Corrector(3)
    _, receipts = corrector.process_many(P, receipt=True)
    before = corrector.to_bytes()
    for at, wrong in [(2, -0.5), (20, 1.5), (21, 1.5)]:  # of the anchor, the calibrated row, top
        bad = receipts.copy()
        bad[1, at] = wrong
        with pytest.raises(
            InvalidPrediction, match=rf"receipt of row 1: {wrong}, expected .*or NaN"
        ):
            corrector.learn_many(P, [0, 2], receipts=bad)
    with pytest.raises(InvalidPrediction, match="receipts: they need the rows that"):
        corrector.learn_many(None, [0, 2], receipts=receipts)
    assert corrector.to_bytes() == before


OTHERS = [(kind, other) for kind in KINDS for other in KINDS if ROWS[kind] != ROWS[other]]


@pytest.mark.parametrize("m", [2, 3, 4, 10])
@pytest.mark.parametrize(("kind", "other"), OTHERS)
def test_a_receipt_of_other_rows_counts_as_none(m, kind, other):
    """From before fit, of a corrector with or without columns."""
    rng = np.random.default_rng(0)
    P, ys = rng.dirichlet(np.ones(m), 9), rng.integers(m, size=9)
    told, untold, single = (corrector_of(m, kind) for _ in range(3))
    for corrector in (told, untold, single):
        corrector.process_many(P[::-1])  # what would be sent now differs from what was
        corrector.learn_many(P, ys[::-1])
    _, receipts = corrector_of(m, other).process_many(P, receipt=True)
    told.learn_many(P, ys, receipts=receipts)
    for p, y, receipt in zip(P, ys, receipts, strict=True):
        single.learn_one(p, int(y), receipt=receipt)
    untold.learn_many(P, ys)
    assert told.to_bytes() == single.to_bytes() == untold.to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_receipt_of_its_own_rows_does_not(kind):
    rng = np.random.default_rng(0)
    P, ys = rng.dirichlet(np.ones(4), 9), rng.integers(4, size=9)
    told, untold = corrector_of(4, kind), corrector_of(4, kind)
    untold.process_many(P)
    _, receipts = told.process_many(P, receipt=True)
    told.learn_many(P[::-1], ys, receipts=receipts)
    untold.learn_many(P[::-1], ys)
    assert told.to_bytes() != untold.to_bytes()


@pytest.mark.parametrize(
    "shape", [(), (15,), (17,), (10, 1), (3, 4), (2, 3), (5, 3), (3, 3, 3), (32,), (20,)]
)
def test_what_is_no_receipt_is_refused(shape):
    corrector = Corrector(3)
    before = corrector.to_bytes()
    for dtype in (np.float32, np.int64):
        with pytest.raises(InvalidPrediction, match="receipt is"):
            corrector.learn_one([0.2, 0.3, 0.5], 0, receipt=np.zeros(shape, dtype))
    with pytest.raises(InvalidPrediction, match="receipt is int64"):
        corrector.learn_one([0.2, 0.3, 0.5], 0, receipt=np.zeros(16, np.int64))
    assert corrector.to_bytes() == before


@pytest.mark.parametrize("sets", [None, 0.9])
@pytest.mark.parametrize("m", [2, 5])
def test_what_one_receipt_gave_takes_a_shorter_way_to_the_same(m, sets):
    rng = np.random.default_rng(m)
    P, corrector = rng.dirichlet(np.ones(m), 60), Corrector(m, sets=sets)
    corrector.process_many(P[:30])
    corrector.learn_many(P[:30], rng.integers(m, size=30))
    _, *_, receipts = corrector.process_many(P, receipt=True)
    ys = rng.integers(m, size=60)
    receipts[5] = np.nan
    many = room.brought(receipts, ys, m, rows=room.ROWS, sets=sets is not None)
    for i, y in enumerate(ys):
        one = room.brought_one(receipts[i], int(y), m, sets=sets is not None)
        as_list = room.brought_one(
            receipts[i].astype(float).tolist(), int(y), m, sets=sets is not None
        )
        assert one.tobytes() == many[i].tobytes() == as_list.tobytes()
    wrong = receipts[0].copy()
    wrong[ys[0]] = 1.5
    with pytest.raises(InvalidPrediction, match=r"receipt: 1\.5, expected probabilities"):
        room.brought_one(wrong, int(ys[0]), m, sets=sets is not None)
