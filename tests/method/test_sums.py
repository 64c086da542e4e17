"""Sums of rows: what they add is what observing the rows adds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector
from stream_can.method import sums
from tests.strategies import path_sets

pytestmark = pytest.mark.fast


def lived(m, paths, half_life, seed, fit):
    rng = np.random.default_rng(seed)
    corrector = Corrector(m, paths=paths, half_life=half_life)
    if fit:
        corrector.fit(rng.dirichlet(np.ones(m), 520), np.arange(520) % m)
    P = rng.dirichlet(np.full(m, 0.4), 60)
    corrector.process_many(P)
    corrector.learn_many(P[:30], rng.integers(0, m, 30))
    return corrector, rng.dirichlet(np.full(m, 0.4), 40)


correctors = st.builds(
    lived,
    st.sampled_from([2, 3, 12]),
    path_sets,
    st.sampled_from([3.0, 5000.0, float("inf")]),
    st.integers(0, 99),
    st.booleans(),
)


@given(correctors)
def test_single_rows_add_what_observing_them_adds_to_the_bit(made):
    observed, P = made
    summed = Corrector.from_bytes(observed.to_bytes())
    for p in P:
        row, receipt = observed.process_one(p, receipt=True)
        added = summed.new_sums()
        before = summed.to_bytes()
        rows, receipts = summed.correct_and_sum(p[None], added, receipt=True)
        assert summed.to_bytes() == before  # correcting has changed nothing
        assert rows[0].tobytes() == row.tobytes()
        assert receipts[0].tobytes() == receipt.tobytes()
        summed.add_sums(added)
        assert summed.to_bytes() == observed.to_bytes()


@given(correctors, st.lists(st.integers(0, 40), max_size=4))
def test_sums_are_those_of_the_rows_however_they_are_cut(made, cuts):
    corrector, P = made
    whole, parts, merged = (corrector.new_sums() for _ in range(3))
    out = corrector.correct_and_sum(P, whole)
    assert out.tobytes() == corrector.correct_many(P).tobytes()
    pieces = np.split(P, sorted(cuts))
    for piece in pieces:
        corrector.correct_and_sum(piece, parts)
        own = corrector.new_sums()
        corrector.correct_and_sum(piece, own)
        corrector.merge_sums(merged, own)
    assert parts.tobytes() == whole.tobytes()
    np.testing.assert_allclose(merged, whole, rtol=1e-9, atol=1e-12)
    assert (merged[1:, -1] == whole[1:, -1])[: len(merged) - 2].all()


@given(correctors)
def test_sums_of_many_rows_add_what_observing_them_with_the_same_state_would(made):
    """Without a label, nothing that these sums are made of changes on the way."""
    corrector, P = made
    start = {name: array.copy() for name, array in corrector._state.items()}
    added = corrector.new_sums()
    corrector.correct_and_sum(P, added)
    corrector.add_sums(added)
    g, state = corrector._kernel.g, corrector._state
    N, m = len(P), P.shape[1]
    assert state["counts"][0] == start["counts"][0] + N
    np.testing.assert_allclose(state["labelled"], start["labelled"] * g**N, rtol=1e-9)
    if len(corrector.paths) > 1:
        M = start["mean"]
        for p in P / P.sum(axis=1, keepdims=True):
            M = g * M + np.append(p, 1)
        np.testing.assert_allclose(state["mean"], M, rtol=1e-9)
        counts = start["predicted"]
        for j in P.argmax(axis=1):
            counts = g * counts + (np.arange(m) == j)
        np.testing.assert_allclose(state["predicted"], counts, rtol=1e-9)


@given(st.floats(0.0, 1.0), st.integers(0, 10_000))
def test_power(g, n):
    np.testing.assert_allclose(sums.power(g, n), g**n, rtol=1e-9, atol=1e-300)
