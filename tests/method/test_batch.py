"""The paper's method on a matrix."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import (
    Corrector,
    InvalidPrediction,
    batch_can,
    laplace,
    multilabel_batch_can,
    topk_entropy,
)
from tests.strategies import rows

pytestmark = pytest.mark.fast

A0 = [[0.2, 0, 0.8], [0.9, 0.1, 0], [0, 0, 1]]
b0 = [0.5, 0, 0.5]


def by_the_paper(A0, b, q, iterations, alpha):
    """Algorithm of the paper, spelled out for one uncertain row."""
    L = np.vstack([A0, b])
    for _ in range(iterations):
        L = L**alpha
        columns = L.sum(0)
        L = np.array(
            [
                [L[i, j] / columns[j] * q[j] if columns[j] > 0 else 0.0 for j in range(L.shape[1])]
                for i in range(len(L))
            ]
        )
        L = L / L.sum(1, keepdims=True)
    return L[-1]


def test_the_worked_example():
    q = laplace([7, 0, 0])
    np.testing.assert_allclose(q, [0.8, 0.1, 0.1])
    out = batch_can([*A0, b0], q, threshold=0.5)
    np.testing.assert_allclose(out[-1], [23 / 25, 0, 2 / 25], atol=1e-15)
    np.testing.assert_array_equal(out[:3], A0)
    stream = Corrector(
        3,
        train_counts=[7, 0, 0],
        paths=["can"],
        half_life=float("inf"),
        pseudo_count=0,
        prior_strength=float("inf"),
        threshold=0.5,
    )
    stream.observe_many(A0)
    np.testing.assert_allclose(stream.correct_one(b0), [23 / 25, 0, 2 / 25], atol=1e-15)


@given(
    st.integers(2, 8).flatmap(lambda m: rows(m, 12)),
    st.integers(1, 4),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_equals_the_paper_row_by_row(P, iterations, alpha):
    P = np.asarray(P, float)
    P /= P.sum(1, keepdims=True)
    m = P.shape[1]
    q = laplace(np.arange(m))
    uncertain = topk_entropy(P) >= 0.7
    confident = P[~uncertain] if (~uncertain).any() else np.eye(m)
    out = batch_can(P, q, iterations=iterations, alpha=alpha, threshold=0.7)
    np.testing.assert_allclose(out[~uncertain], P[~uncertain], atol=1e-15)
    for i in np.flatnonzero(uncertain):
        np.testing.assert_allclose(
            out[i], by_the_paper(confident, P[i], q, iterations, alpha), atol=1e-9
        )


def test_where_no_row_is_confident_the_identity_stands_in():
    P, q = np.full((3, 4), 0.25), np.array([0.4, 0.3, 0.2, 0.1])
    np.testing.assert_allclose(batch_can(P, q)[0], by_the_paper(np.eye(4), P[0], q, 1, 1.0))


def test_sample_draws_confident_rows():
    rng = np.random.default_rng(0)
    P = np.vstack([rng.dirichlet(np.full(4, 0.1), 2000), np.full((3, 4), 0.25)])
    q = np.full(4, 0.25)
    full = batch_can(P, q)
    few = batch_can(P, q, sample=500, seed=1)
    np.testing.assert_array_equal(few, batch_can(P, q, sample=500, seed=1))
    assert (few[-1] != batch_can(P, q, sample=500, seed=2)[-1]).any()
    assert abs(few[-1] - full[-1]).max() < 0.05
    np.testing.assert_array_equal(batch_can(P, q, sample=10**6, seed=1), full)
    np.testing.assert_array_equal(few[topk_entropy(P) < 0.9], full[topk_entropy(P) < 0.9])


def test_one_iteration_needs_memory_in_proportion_to_the_rows():
    P = np.random.default_rng(0).dirichlet(np.ones(10), 20_000)
    tracemalloc.start()
    batch_can(P, np.full(10, 0.1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * P.nbytes


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({"P": [[0.5, 0.4]]}, InvalidPrediction, "row 0: probabilities sum to 0.9"),
        ({"P": [0.5, 0.5]}, InvalidPrediction, "shape"),
        ({"P": np.empty((3, 0))}, InvalidPrediction, "shape"),
        ({"prior": [0.5, 0.3, 0.2]}, ValueError, "prior: expected 2 probabilities"),
        ({"prior": [3, 5]}, ValueError, r"laplace\(counts\)"),
        ({"prior": [np.nan, 1]}, ValueError, "prior"),
        ({"iterations": 0}, ValueError, "iterations: 0"),
        ({"alpha": 0}, ValueError, "alpha: 0"),
        ({"sample": 0}, ValueError, "sample: 0"),
        ({"iterations": 2.5}, ValueError, "iterations: 2.5, expected an integer >= 1"),
        ({"iterations": "2"}, ValueError, "iterations: '2'"),
        ({"iterations": np.inf}, ValueError, "iterations: inf"),
        ({"alpha": np.inf}, ValueError, "alpha: inf"),
        ({"alpha": "1"}, ValueError, "alpha: '1'"),
        ({"sample": 1.5}, ValueError, "sample: 1.5"),
        ({"sample": 10**30}, ValueError, "sample: 1000"),
        ({"k": 1}, ValueError, "k: 1"),
        ({"threshold": 2}, ValueError, "threshold: 2"),
        ({"uncertainty": "x"}, ValueError, "uncertainty: 'x'"),
    ],
)
def test_bad_input(arguments, error, why):
    with pytest.raises(error, match=why):
        batch_can(**({"P": [[0.5, 0.5]], "prior": [0.5, 0.5]} | arguments))


def test_whole_numbers_are_integers():
    P = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    q = np.full(4, 0.25)
    integers = batch_can(P, q, k=3, iterations=2, sample=5, seed=1)
    for number in (float, np.float64, np.int16):
        given = {"k": number(3), "iterations": number(2), "sample": number(5)}
        np.testing.assert_array_equal(batch_can(P, q, seed=1, **given), integers)


def test_an_empty_window():
    assert batch_can(np.empty((0, 3)), [0.2, 0.3, 0.5]).shape == (0, 3)


# ---- multilabel rows


def entropy_of(p):
    """In bits."""
    return -sum(x * np.log2(x) for x in (p, 1 - p) if x > 0)


@given(
    st.integers(1, 5).flatmap(
        lambda m: st.lists(
            st.lists(st.floats(0, 1).map(lambda x: round(x, 3)), min_size=m, max_size=m),
            min_size=1, max_size=8,
        )
    ),
    st.integers(1, 4), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.05, 0.3, 0.5]),
)  # fmt: skip
def test_several_labels_equal_the_paper_entry_by_entry(P, iterations, alpha, positive):
    """Entries of all labels are one pool of rows of two classes."""
    pool = [p for row in P for p in row]
    confident = [[p, 1 - p] for p in pool if entropy_of(p) < 0.7]
    options = {"iterations": iterations, "alpha": alpha, "threshold": 0.7}
    out = multilabel_batch_can(P, positive, **options)
    for given_, found in zip(pool, out.ravel().tolist(), strict=True):
        if entropy_of(given_) < 0.7:
            assert found == pytest.approx(given_, abs=1e-15)
            continue
        A0 = confident or np.eye(2)
        q = [positive, 1 - positive]
        expected = by_the_paper(A0, [given_, 1 - given_], q, iterations, alpha)[0]
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("P", "options", "error", "says"),
    [
        ([[0.2, 1.2]], {}, InvalidPrediction, "row 0, label 1: 1.2, expected 0 to 1"),
        ([[0.2], [float("nan")]], {}, InvalidPrediction, "row 1, label 0: nan"),
        ([0.2, 0.3], {}, InvalidPrediction, "expected \\(n, labels\\)"),
        ([[0.2, 0.3]], {"positive": 1.5}, ValueError, "positive: 1.5, expected a share"),
        ([[0.2, 0.3]], {"threshold": 2}, ValueError, "threshold: 2"),
        ([[0.2, 0.3]], {"alpha": 0}, ValueError, "alpha: 0"),
    ],
)
def test_several_labels_that_are_refused(P, options, error, says):
    with pytest.raises(error, match=says):
        multilabel_batch_can(P, **{"positive": 0.1} | options)


def test_several_labels_leave_what_they_are_given():
    P = np.random.default_rng(0).uniform(size=(30, 4))
    before = P.copy()
    out = multilabel_batch_can(P, 0.2)
    assert (before == P).all()
    assert out.shape == P.shape
    assert multilabel_batch_can(np.empty((0, 4)), 0.2).shape == (0, 4)
