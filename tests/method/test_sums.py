"""Sums of rows: what they add is what observing the rows adds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector
from stream_can.method import sums
from stream_can.method.paths import anchor
from stream_can.row_sums import RowSums
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
    """But the weights of the class mix: they come by way of a logarithm."""
    observed, P = made
    for p in P:
        summed = Corrector.from_bytes(observed.to_bytes())
        row, receipt = observed.process_one(p, receipt=True)
        added = RowSums(summed).zeros()
        before = summed.to_bytes()
        rows, receipts = RowSums(summed).correct(p[None], added, receipt=True)
        assert summed.to_bytes() == before  # correcting has changed nothing
        assert rows[0].tobytes() == row.tobytes()
        assert receipts[0].tobytes() == receipt.tobytes()
        RowSums(summed).add(added)
        assert summed._state.keys() == observed._state.keys()
        for name, array in observed._state.items():
            if name in ("W", "W.rival", "W.moving"):
                np.testing.assert_allclose(summed._state[name], array, rtol=0, atol=1e-12)
            else:
                assert summed._state[name].tobytes() == array.tobytes(), name


@given(correctors, st.lists(st.integers(0, 40), max_size=4))
def test_sums_are_those_of_the_rows_however_they_are_cut(made, cuts):
    corrector, P = made
    whole, parts = RowSums(corrector).zeros(), RowSums(corrector).zeros()
    out = RowSums(corrector).correct(P, whole)
    assert out.tobytes() == corrector.correct_many(P).tobytes()
    pieces = np.split(P, sorted(cuts))
    for piece in pieces:
        RowSums(corrector).correct(piece, parts)
    assert parts.tobytes() == whole.tobytes()


@given(correctors)
def test_sums_of_many_rows_add_what_observing_them_with_the_same_state_would(made):
    """Without a label, nothing that these sums are made of changes on the way."""
    corrector, P = made
    start = {name: array.copy() for name, array in corrector._state.items()}
    added = RowSums(corrector).zeros()
    first = corrector.explain_many(P)[anchor(corrector.paths)]
    RowSums(corrector).correct(P, added)
    RowSums(corrector).add(added)
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
    if "V" in state:
        V = start["V"]
        for r in first:
            V = g * V + np.append(r, 1)
        np.testing.assert_allclose(state["V"], V, rtol=1e-9)
    for of, name in [("W", "Q"), ("W", "Q.500"), ("W", "Q.50"), ("W.moving", "Q.moving")]:
        if name in state:  # the number of rows; what the experts count is asked of the oracle
            decay = 2 ** (-1 / sums.EXPERTS.get(name, sums.MOVING_EXPERTS["Q.moving"]).half_life)
            number = start[name][-1] * decay**N + (1 - decay**N) / (1 - decay)
            assert state[name][-1] == pytest.approx(number)
            assert abs(weights_in(state, of).sum() - 1) < 1e-12


def weights_in(state, name):
    """All weights of a chain, last that of its rival, if it has one."""
    return np.append(state[name], state["W.rival"] if name == "W" else [])


def folded(W, E, n):
    """The weights of the experts after n rows with the evidence E: JUDGE's slow loop."""
    W, factors = W.tolist(), [1.0, *np.exp(np.array(E) / n).tolist()]
    for _ in range(n):
        W = [w * factor for w, factor in zip(W, factors, strict=True)]
        total = sum(W)
        W = [0.997 * w / total + 0.003 / len(W) for w in W]
    return np.array(W)


def part_of(corrector, name):
    return [part.array for part in RowSums(corrector).parts].index(name)


MIXES = {"W.moving": lived(3, None, 5000.0, 0, False)[0], "W": lived(3, None, 5000.0, 0, True)[0]}


@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("n", [1, 2, 7, 100, 5000, 20_000, 20_001, 50_000])
@pytest.mark.parametrize("each", [0.3, -0.02, 0.0004, 5.0])
def test_evidence_is_folded_as_if_it_had_come_evenly(name, n, each):
    """Above 20,000 turns they stand still: no more are made."""
    corrector = Corrector.from_bytes(MIXES[name].to_bytes())
    W = weights_in(corrector._state, name)
    E = n * each * np.array([1.0, -0.5, 0.9, 0.7])[: len(W) - 1]
    added = RowSums(corrector).zeros()
    added[sums.ROWS, -1] = n
    added[part_of(corrector, name), : min(3, len(E))] = E[:3]
    if name == "W":
        added[part_of(corrector, "W.rival"), 0] = E[3]
    RowSums(corrector).add(added)
    found = weights_in(corrector._state, name)
    np.testing.assert_allclose(found, folded(W, E, n), rtol=0, atol=1e-12)
    assert n > 1000 or abs(folded(W, E, n) - folded(W, E / 2, n)).max() > 1e-7  # it says something


@pytest.mark.parametrize("name", MIXES)
def test_evidence_of_sums_is_added(name):
    corrector = Corrector.from_bytes(MIXES[name].to_bytes())
    W, at = weights_in(corrector._state, name), part_of(corrector, name)
    P = np.random.default_rng(1).dirichlet([2, 0.3, 0.3], 500)
    both = RowSums(corrector).zeros()
    RowSums(corrector).correct(P, both)
    n = len(corrector._state[name]) - 1
    assert (both[at, :n] != 0).all()
    assert (both[at, n:] == 0).all()
    E = both[at, :n]
    if name == "W":
        E = np.append(E, both[part_of(corrector, "W.rival"), 0])
    RowSums(corrector).add(both)
    found = weights_in(corrector._state, name)
    np.testing.assert_allclose(found, folded(W, E, 500), atol=1e-12)


def test_a_row_that_nobody_expected_is_as_likely_in_sums_as_when_it_is_observed():
    """Its evidence is far from 0, where a logarithm rounds."""
    for seed in range(20):
        observed = Corrector(12, half_life=math.inf)
        observed.process_many(np.eye(12)[np.zeros(400 + seed, int)])
        summed = Corrector.from_bytes(observed.to_bytes())
        added, p = RowSums(summed).zeros(), np.eye(12)[1 + seed % 11]
        before = summed._state["W.moving"].copy()
        RowSums(summed).correct(p[None], added)
        RowSums(summed).add(added)
        observed.process_one(p)
        W = observed._state["W.moving"]
        np.testing.assert_allclose(summed._state["W.moving"], W, rtol=0, atol=1e-12)
        assert abs(W - before).max() > 0.1


@given(st.floats(0.0, 1.0), st.integers(0, 10_000))
def test_power(g, n):
    np.testing.assert_allclose(sums.power(g, n), g**n, rtol=1e-9, atol=1e-300)
