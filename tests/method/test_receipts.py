"""Receipts: what they give a label is the same however they were kept."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Corrector, InvalidPrediction
from stream_can.method import receipts as room

pytestmark = pytest.mark.fast


def made(m, n=7):
    rng = np.random.default_rng(m)
    _, receipts = Corrector(m).process_many(rng.dirichlet(np.ones(m), n), receipt=True)
    return receipts, rng.integers(m, size=n)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_what_a_receipt_gave_is_the_same_however_it_was_kept(m):
    receipts, ys = made(m)
    assert receipts[0].size == room.size(m)
    want = room.gave_all(receipts, ys)
    assert want.shape == room.none_known(len(ys)).shape
    assert (want == room.brought(receipts, ys, m)).all()
    single = [room.gave_row(receipts, i, y) for i, y in enumerate(ys)]
    kept = [
        room.gave(room.kept(receipt.tobytes()), y, m)
        for receipt, y in zip(receipts, ys, strict=True)
    ]
    assert single == kept == [row.tobytes() for row in want]
    assert (room.joined(kept) == want).all()
    assert room.sensible(want).all()


def test_what_is_gone_is_not_known():
    blank = room.blank(2, 3)
    assert room.kept(blank[0].tobytes()) is None
    known = room.joined([room.gave(None, 1, 3), room.gave_row(blank, 1, 2)])
    assert np.isnan(known).all()
    assert known.shape == room.none_known(2).shape
    assert np.isnan(room.brought(blank, np.array([0, 2]), 3)).all()


def test_a_class_that_appeared_since_was_given_nothing():
    receipts, _ = made(3, 2)
    known = room.brought(receipts, np.array([3, 2]), 4)
    assert (known[0] == 0).all()
    assert (known[1] == receipts[1, :, 2]).all()
    with pytest.raises(InvalidPrediction, match=r"shape \(2, 3, 3\), expected .* \(2, 3, 4\)"):
        room.brought(receipts, np.array([3, 2]), 4, fewest=4)


def test_receipts_that_give_no_probability_are_refused_by_row_and_nothing_is_learned():
    P = np.full((2, 3), 1 / 3)
    corrector = Corrector(3)
    _, receipts = corrector.process_many(P, receipt=True)
    before = corrector.to_bytes()
    receipts[1, 0, 2] = -0.5
    with pytest.raises(InvalidPrediction, match=r"receipt of row 1: \[-0\.5.*or NaN"):
        corrector.learn_many(P, [0, 2], receipts=receipts)
    with pytest.raises(InvalidPrediction, match="receipts belong to predictions, and p is None"):
        corrector.learn_many(None, [0, 2], receipts=receipts)
    assert corrector.to_bytes() == before
