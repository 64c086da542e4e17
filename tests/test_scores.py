"""Scores: equal to scikit-learn's where it has them, equal however the stream is cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from stream_can import scores
from stream_can.errors import InvalidPrediction, UnknownClass

pytestmark = pytest.mark.fast


def stream(n=2000, m=4, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.5), n)
    y = np.array([rng.choice(m, p=row) for row in P])
    return P, y


@pytest.mark.parametrize("m", [2, 4, 30])
def test_equal_to_scikit_learn(m):
    P, y = stream(m=m)
    classes = np.arange(m)
    floored = np.maximum(P, scores.FLOOR)
    of_label = floored[np.arange(len(y)), y]
    assert scores.accuracy(P, y) == pytest.approx(metrics.accuracy_score(y, P.argmax(1)), abs=1e-12)
    # scikit-learn's own floor is the smallest float64: compare on rows that touch neither.
    clear = of_label > scores.FLOOR
    expected = metrics.log_loss(y[clear], P[clear], labels=classes)
    assert scores.log_loss(P[clear], y[clear]) == pytest.approx(expected, abs=1e-12)
    expected = metrics.brier_score_loss(y, P, labels=classes, scale_by_half=False)
    assert scores.brier(P, y) == pytest.approx(expected, abs=1e-12)


def test_weighted_scores_are_those_of_scikit_learn():
    P, y = stream()
    w = np.random.default_rng(1).uniform(0.01, 100, len(y))
    total, half = scores.Scores(), len(y) // 2
    total.add(P[:half], y[:half], w[:half])
    total = scores.Scores.from_sums((total + scores.Scores()).sums())
    total.add(P[half:], y[half:], w[half:])
    expected = metrics.accuracy_score(y, P.argmax(1), sample_weight=w)
    assert total.accuracy == pytest.approx(expected, abs=1e-12)
    losses = -np.log(np.maximum(P[np.arange(len(y)), y], scores.FLOOR))  # its own floor differs
    assert total.log_loss == pytest.approx(np.average(losses, weights=w), abs=1e-12)
    expected = metrics.brier_score_loss(y, P, sample_weight=w, scale_by_half=False)
    assert total.brier == pytest.approx(expected, abs=1e-12)
    assert (total.n, total.weight) == (len(y), pytest.approx(w.sum()))
    assert total.mean_confidence == pytest.approx(np.average(P.max(1), weights=w))
    times = np.arange(len(y)) % 3 + 1  # a weight of 2 is the row twice
    weighted, repeated = scores.Scores(), scores.Scores()
    weighted.add(P, y, times)
    repeated.add(np.repeat(P, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.sums()[0, 1:], repeated.sums()[0, 1:])
    np.testing.assert_allclose(weighted.sums()[1:], repeated.sums()[1:])
    for wrong in ([1.0], np.full(len(y), 0.0), np.full(len(y), np.nan)):
        before = total.sums()
        with pytest.raises(ValueError, match="weight"):
            total.add(P, y, wrong)
        np.testing.assert_array_equal(total.sums(), before)


@given(
    st.integers(1, 12), st.integers(0, 300), st.integers(1, 20), st.sampled_from([1, 4, 100]),
    st.integers(0, 99),
)  # fmt: skip
def test_one_pass_equals_numpy_to_the_bit(m, n, bins, digits, seed):
    """Rows of few digits have equal likeliest classes, and lie on the edges of bins."""
    rng = np.random.default_rng(seed)
    P, y = rng.integers(0, digits + 1, (n, m)) / digits, rng.integers(0, m, n)
    total = scores.Scores(bins)
    total.add_checked(P, y)
    start = total.sums()
    found = total.add_checked(P, y)
    at, best = np.arange(n), P.argmax(axis=1)
    confidence, of_label = P[at, best], P[at, y]
    inside = np.clip(np.ceil(confidence * bins).astype(np.intp) - 1, 0, bins - 1)
    weights = (np.ones(n), confidence, best == y)
    in_bins = np.array([np.bincount(inside, one, bins) for one in weights])
    np.testing.assert_array_equal(found.best, best)
    np.testing.assert_array_equal(found.hits, best == y)
    np.testing.assert_array_equal(found.losses, -np.log(np.maximum(of_label, scores.FLOOR)))
    np.testing.assert_array_equal(found.confidence, confidence)
    np.testing.assert_array_equal(start[1:, :3], in_bins.T)
    np.testing.assert_array_equal(total.sums()[1:, :3], 2 * in_bins.T)
    squares = np.einsum("ij,ij->", P, P) - 2 * of_label.sum() + n
    assert start[0].tolist() == [n, (best == y).sum(), found.losses.sum(), squares]
    for label in (-1, m):
        with pytest.raises(IndexError):
            total.add_checked(np.full((1, m), 1 / m), np.array([label]))


def test_calibration_errors_by_hand():
    P, y = stream()
    confidence, hit = P.max(1), P.argmax(1) == y
    gaps, weights = [], []
    for low in range(15):
        inside = (confidence > low / 15) & (confidence <= (low + 1) / 15)
        if inside.any():
            gaps.append(abs(hit[inside].mean() - confidence[inside].mean()))
            weights.append(inside.mean())
    assert scores.ece(P, y) == pytest.approx(np.dot(gaps, weights), abs=1e-12)
    assert scores.mce(P, y) == pytest.approx(max(gaps), abs=1e-12)
    bins = scores.reliability_bins(P, y)
    assert bins.rows.sum() == len(y)
    assert np.isnan(bins.accuracy[bins.rows == 0]).all()


def test_adaptive_ece_by_hand():
    P, y = stream(1500)
    confidence, hit = P.max(1), P.argmax(1) == y
    groups = np.split(np.argsort(confidence), 15)
    gaps = [abs(hit[rows].mean() - confidence[rows].mean()) for rows in groups]
    assert scores.adaptive_ece(P, y) == pytest.approx(np.mean(gaps), abs=1e-12)


def test_adaptive_ece_does_not_ask_for_the_order_of_the_rows():
    P, y = stream(1003)
    P = np.round(P, 1)
    P[:, 0] += 1 - P.sum(1)
    P = np.abs(P) / np.abs(P).sum(1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(y))
    expected = scores.adaptive_ece(P, y)
    assert scores.adaptive_ece(P[order], y[order]) == pytest.approx(expected, abs=1e-12)
    assert scores.adaptive_ece(P[:3], y[:3]) > 0  # fewer rows than bins
    assert np.isnan(scores.adaptive_ece(np.empty((0, 3)), np.empty(0, int)))
    with pytest.raises(ValueError, match="bins: expected at least 1"):
        scores.adaptive_ece(P, y, bins=0)


def test_calibrated_rows_have_a_small_error_and_overconfident_ones_a_large_one():
    P, y = stream(n=50_000)
    assert scores.ece(P, y) < 0.01
    sharp = P**3 / (P**3).sum(1, keepdims=True)
    assert scores.ece(sharp, y) > 0.1


def test_chunks_add_up():
    P, y = stream()
    whole, parts = scores.Scores(), scores.Scores()
    whole.add(P, y)
    for cut in np.array_split(np.arange(len(y)), 7):
        parts.add(P[cut], y[cut])
    assert parts.summary() == pytest.approx(whole.summary(), abs=1e-12)


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_the_sum_of_parts_equals_the_whole(sizes, bins, seed):
    whole, parts = scores.Scores(bins), []
    P, y = stream(n=sum(sizes), seed=seed)
    whole.add(P, y)
    for stop, size in zip(np.cumsum(sizes, dtype=int), sizes, strict=True):
        parts.append(scores.Scores(bins))
        parts[-1].add(P[stop - size : stop], y[stop - size : stop])
    before = [part.summary() for part in parts]
    found = sum(parts, scores.Scores(bins))
    assert (found.n, found.hits) == (whole.n, whole.hits)
    assert found.log_loss_sum == pytest.approx(whole.log_loss_sum, abs=1e-9)
    assert found.brier_sum == pytest.approx(whole.brier_sum, abs=1e-9)
    assert found.summary() == pytest.approx(whole.summary(), abs=1e-9, nan_ok=True)
    for ours, theirs in zip(found.reliability, whole.reliability, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-9, nan_ok=True)
    # The parts are as they were: nothing is shared.
    found.add([[1.0, 0.0]], [0])
    again = [part.summary() for part in parts]
    assert again == [pytest.approx(one, abs=0, nan_ok=True) for one in before]


def test_only_scores_of_equal_bins_add_up():
    with pytest.raises(ValueError, match="bins: 15 and 10"):
        scores.Scores() + scores.Scores(10)
    with pytest.raises(TypeError):
        scores.Scores() + 1


def test_zero_probability_costs_the_floor_and_no_more():
    assert scores.log_loss([[1.0, 0.0]], [1]) == pytest.approx(-np.log(1e-6))


def test_confidence_zero_and_one_fall_into_the_outer_bins():
    assert scores.reliability_bins([[1.0]], [0]).rows.tolist() == [0] * 14 + [1]


def test_no_rows_give_nan():
    empty = scores.Scores()
    empty.add(np.empty((0, 3)), np.empty(0, int))
    assert all(np.isnan(value) for value in empty.summary().values())


@pytest.mark.parametrize(
    ("P", "y", "error", "words"),
    [
        ([[0.5, 0.5], [0.9, 0.4]], [0, 1], InvalidPrediction, r"row 1: probabilities sum to 1\.3"),
        ([[np.nan, 1.0]], [0], InvalidPrediction, "row 0: entry"),
        ([[np.inf, 0.0]], [0], InvalidPrediction, "row 0: entry"),
        ([[-0.5, 1.5]], [0], InvalidPrediction, "row 0: entry"),
        ([0.5, 0.5], [0], InvalidPrediction, r"expected \(n, m\)"),
        ([[0.5, 0.5]], [2], UnknownClass, r"row 0: label 2 is not in \[0, 2\)"),
        ([[0.5, 0.5]], [-1], UnknownClass, "row 0: label -1"),
        ([[0.5, 0.5]], [0.0], UnknownClass, "integers"),
        ([[0.5, 0.5]], ["a"], UnknownClass, "integers"),
        ([[0.5, 0.5]], [0, 1], UnknownClass, "one label per row"),
    ],
)
def test_refused(P, y, error, words):
    with pytest.raises(error, match=words):
        scores.Scores().add(P, y)


def test_bins_must_be_positive():
    with pytest.raises(ValueError, match="bins"):
        scores.ece([[1.0]], [0], bins=0)
