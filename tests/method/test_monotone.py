"""With monotone no row changes its likeliest class, whatever was learned and however it is sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, SnapshotMismatch
from stream_can.method.paths import MONOTONE_PATHS
from tests.correctors import run
from tests.equal import compare
from tests.oracle import Oracle
from tests.strategies import streams

pytestmark = pytest.mark.fast

ROUNDING = 1e-12
monotone_paths = st.lists(st.sampled_from(MONOTONE_PATHS), min_size=1, unique=True)


def close_rows(rng, m):
    """Rows whose largest numbers are equal, or differ in their last bits alone."""
    P = rng.dirichlet(np.ones(m), 30)
    at = np.argsort(-P, axis=1)[:, :2]
    for p, (i, j) in zip(P, at, strict=True):
        p[[i, j]] = (p[i] + p[j]) / 2
        if rng.random() < 0.7:
            p[rng.choice([i, j])] *= 1 + rng.integers(1, 4) * 2.0**-52
    return P


def in_order(sent, P):
    """The likeliest class, the first of equals, is the same, and no class overtakes another."""
    assert (sent.argmax(axis=1) == P.argmax(axis=1)).all()
    order = np.argsort(P, axis=1, kind="stable")
    by_row = np.take_along_axis(sent, order, axis=1)
    differs = np.diff(np.take_along_axis(P, order, axis=1), axis=1) > 0
    assert (np.diff(by_row, axis=1)[differs] >= -ROUNDING).all()
    assert abs(sent.sum(axis=1) - 1).max() < 1e-9


@given(streams(), monotone_paths, st.booleans(), st.integers(0, 2**32 - 1))
def test_the_likeliest_class_stays_whatever_was_learned(stream, paths, fits, seed):
    m, counts, settings, P, events = stream
    rng = np.random.default_rng(seed)
    settings |= {"paths": paths, "monotone": True}
    corrector = Corrector(m, train_counts=counts, **settings)
    if fits and m > 1:
        corrector.fit(rng.dirichlet(np.ones(m), m + 20), np.r_[:m, rng.integers(0, m, 20)])
    run(corrector, P, events)
    adversarial = close_rows(rng, m) if m > 2 else P
    for rows in (np.asarray(P, float), adversarial):
        in_order(corrector.correct_many(rows), rows)
        in_order(np.array([corrector.process_one(row) for row in rows]), rows)
        in_order(corrector.process_many(rows), rows)


@given(streams(), monotone_paths)
def test_equals_the_oracle(stream, paths):
    m, counts, settings, P, events = stream
    settings |= {"paths": paths, "monotone": True}
    oracle = Oracle(m, train_counts=counts, **settings)
    compare(oracle, Corrector(m, train_counts=counts, **settings), P, events, 1e-9)


def test_fit_teaches_the_rows_as_labels_that_come_at_once():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(4, 0.3), 800)
    y = (rng.random((800, 1)) < np.cumsum(P**0.3 / (P**0.3).sum(1, keepdims=True), 1)).argmax(1)
    fitted, taught = Corrector(4, monotone=True), Corrector(4, monotone=True)
    fitted.fit(P, y)
    order = np.random.default_rng(0).permutation(800)
    taught.learn_many(P[order], y[order])
    assert fitted.final_weights == pytest.approx(taught.final_weights)  # divided by their sum
    assert fitted.temperature == pytest.approx(taught.temperature)
    assert fitted.temperature > 2
    assert (fitted.n_labels, fitted.fit_report["step"]) == (0, "temperature")
    again = Corrector.from_bytes(fitted.to_bytes())
    np.testing.assert_array_equal(again.correct_many(P), fitted.correct_many(P))


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"paths": ["raw", "vector"]}, "monotone: the path 'vector' can change"),
        ({"segments": ["tenant"]}, "monotone: the segment 'tenant' can change"),
        ({"monotone": 2}, "monotone: 2, expected true or false"),
    ],
)
def test_what_could_change_it_is_refused_by_name(others, why):
    with pytest.raises(ValueError, match=why):
        Corrector(3, **{"monotone": True} | others)


def test_a_state_stays_what_it_is():
    monotone = Corrector(3, monotone=True)
    assert Corrector.from_bytes(monotone.to_bytes()).monotone
    assert monotone.successor().monotone
    for corrector in (monotone, Corrector(3)):
        with pytest.raises(SnapshotMismatch, match=r"snapshot: monotone: it has \w+, expected "):
            Corrector.from_bytes(corrector.to_bytes(), monotone=not corrector.monotone)
