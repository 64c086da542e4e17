"""Weights of labels: one counts as many; the steps are those of the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Corrector

pytestmark = pytest.mark.fast

P, Y = np.random.default_rng(0).dirichlet(np.ones(3), 40), np.arange(40) % 3


def test_one_call_learns_as_many_do_and_a_weight_of_1_changes_nothing():
    weights = np.random.default_rng(1).uniform(0.01, 100, 40)
    alone, many, played, plain, ones = (Corrector(3, sets=0.9) for _ in range(5))
    for p, y, weight in zip(P, Y, weights, strict=True):
        alone.learn_one(p, y, weight=weight)
        alone.learn_one(None, y, weight=weight)
    both, rows = np.repeat(Y, 2), np.repeat(np.arange(40), 2)
    rows[1::2] = -1
    played.play(P, both, rows, np.zeros(80, int), first=40, weights=np.repeat(weights, 2))
    assert alone.to_bytes() == played.to_bytes()
    many.learn_many(P, Y, weights=np.ones(40))
    plain.learn_many(P, Y)
    for p, y in zip(P, Y, strict=True):
        ones.learn_one(p, y, weight=1)
    assert plain.to_bytes() == many.to_bytes() == ones.to_bytes() != alone.to_bytes()


def test_weights_undo_labels_that_were_chosen_by_class():
    """The share of a class among the labels is that of the stream again."""
    rng = np.random.default_rng(2)
    y = (rng.random(20_000) < 0.05).astype(int)
    chance = np.where(y == 1, 0.5, 0.05)
    taken = rng.random(len(y)) < chance
    corrector = Corrector(2)
    rows = np.full((taken.sum(), 2), 0.5)
    corrector.learn_many(rows, y[taken], weights=1 / chance[taken])
    assert corrector.prior[1] == pytest.approx(0.05, abs=0.02)
    assert corrector.correct_one([0.5, 0.5])[1] == pytest.approx(0.05, abs=0.02)
    corrector = Corrector(2)
    corrector.learn_many(rows, y[taken])
    assert corrector.correct_one([0.5, 0.5])[1] > 0.25


@pytest.mark.parametrize("weight", [0, -1, 0.009, 101, float("nan"), float("inf"), "2", [1]])
def test_a_weight_that_is_none_teaches_nothing(weight):
    corrector = Corrector(3)
    before = corrector.to_bytes()
    with pytest.raises(ValueError, match=r"weight: .*expected a number from 0.01 to 100"):
        corrector.learn_one(P[0], 1, weight=weight)
    if isinstance(weight, float | int):
        with pytest.raises(ValueError, match="label 1: weight: "):
            corrector.learn_many(P[:2], Y[:2], weights=[1, weight])
    for is_weight in (True, np.True_):
        with pytest.raises(ValueError, match=r"weight: .*True.*expected a number"):
            corrector.learn_one(P[0], 1, weight=is_weight)
        with pytest.raises(ValueError, match="weights: true or false, expected numbers"):
            corrector.learn_many(P[:2], Y[:2], weights=[is_weight, is_weight])
    with pytest.raises(ValueError, match=r"weights have shape \(1,\), expected \(2,\)"):
        corrector.learn_many(P[:2], Y[:2], weights=[1])
    assert corrector.to_bytes() == before
