"""The family: equal to scikit-learn where it does the same, right by its own formulas, whole."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.special import betaln
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from stream_can import InvalidPrediction, StreamCANError, UnknownClass, snapshot
from stream_can.calibration import (
    BBQ,
    Calibration,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
    scaling,
)
from stream_can.errors import SnapshotMismatch
from stream_can.scores import ece, log_loss

pytestmark = pytest.mark.fast

FAMILY = [
    HistogramBinning,
    IsotonicCalibration,
    BBQ,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    MatrixScaling,
    StructuredVectorScaling,
    StructuredMatrixScaling,
]


def drawn(n=600, m=4, sharpness=1.0, seed=0):
    """Rows that are calibrated at sharpness 1 and overconfident above."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.7), n)
    y = (rng.random((n, 1)) > P.cumsum(1)[:, :-1]).sum(1)
    P = np.maximum(P, 1e-9) ** sharpness
    return P / P.sum(1, keepdims=True), y


# ---- against scikit-learn


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose answer is its input."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return X.argmax(1)


class Probabilities(Given):
    def predict_proba(self, X):
        return X


class LogOdds(Given):
    def decision_function(self, X):
        z = np.log(X + 1e-12) - np.log(1 - X + 1e-12)
        return z[:, 1] if X.shape[1] == 2 else z


@pytest.mark.parametrize("m", [2, 3, 12])
@pytest.mark.parametrize(
    ("ours", "theirs", "method"),
    [
        (IsotonicCalibration, Probabilities, "isotonic"),
        (PlattScaling, LogOdds, "sigmoid"),
        (TemperatureScaling, Probabilities, "temperature"),
    ],
)
def test_equal_to_scikit_learn(ours, theirs, method, m):
    P, y = drawn(900, m, sharpness=2)
    fresh, _ = drawn(300, m, sharpness=2, seed=1)
    P[5] = np.eye(m)[y[5]]
    fresh[5] = np.eye(m)[0]
    estimator = FrozenEstimator(theirs().fit(P, y))
    expected = CalibratedClassifierCV(estimator, method=method).fit(P, y).predict_proba(fresh)
    assert ours().fit(P, y).transform(fresh) == pytest.approx(expected, abs=1e-6)


# ---- by their formulas


def test_histogram_binning_by_hand():
    P, y = drawn(500, 3)
    calibrated = HistogramBinning(bins=4).fit(P, y).transform(P)
    expected = np.empty_like(P)
    for k in range(3):
        for low in (0, 0.25, 0.5, 0.75):
            inside = (P[:, k] > low) & (P[:, k] <= low + 0.25)
            expected[inside, k] = (y == k)[inside].mean()
    assert calibrated == pytest.approx(expected / expected.sum(1, keepdims=True), abs=1e-12)


def test_an_empty_bin_answers_with_its_middle():
    found = HistogramBinning(bins=2).fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    assert found.transform([[0.4, 0.6]]).tolist() == [[0.25, 0.75]]


def test_bbq_by_hand():
    """Naeini et al., equations 1 to 3, bin by bin, without ties."""
    P, y = drawn(200, 2, sharpness=2)
    p, order = np.sort(P[:, 0]), np.argsort(P[:, 0])
    hit = (y == 0)[order]
    at = np.array([0.001, 0.2, 0.5, 0.77, 0.999])
    evidence, answers = [], []
    for bins in range(1, 41):
        cuts = np.linspace(0, 200, bins + 1).round().astype(int)
        sides = [0, *((p[c - 1] + p[c]) / 2 for c in cuts[1:-1]), 1]
        total, theta = 0.0, []
        for b in range(bins):
            rows, hits = cuts[b + 1] - cuts[b], hit[cuts[b] : cuts[b + 1]].sum()
            middle = (sides[b] + sides[b + 1]) / 2
            alpha, beta = 2 / bins * middle, 2 / bins * (1 - middle)
            total += betaln(hits + alpha, rows - hits + beta) - betaln(alpha, beta)
            theta.append((hits + alpha) / (rows + 2 / bins))
        evidence.append(total)
        answers.append([theta[np.searchsorted(sides[1:-1], value, "left")] for value in at])
    weights = np.exp(np.array(evidence) - max(evidence))
    expected = weights @ np.array(answers) / weights.sum()
    found = BBQ()
    edges, values = found._fit_one(P[:, 0], y == 0)
    assert values[np.searchsorted(edges, at, "left")] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("l2", [0.0, 3.0])
def test_gradients_by_finite_differences(l2):
    rng = np.random.default_rng(0)
    P, y = drawn(50, 3)
    x = scaling.logs(P)
    for loss, size in [
        (lambda t: scaling.vector_loss(t, x, y), 6),
        (lambda t: scaling.matrix_loss(t, x, y, l2), 12),
    ]:
        at = rng.normal(size=size)
        expected = approx_fprime(at, lambda t, loss=loss: loss(t)[0], 1e-7)
        assert loss(at)[1] == pytest.approx(expected, abs=1e-5)


def test_a_strong_pull_is_the_identity_and_a_weak_one_is_none():
    P, y = drawn(500, 3, sharpness=3)
    assert MatrixScaling(l2=1e9).fit(P, y).transform(P) == pytest.approx(P, abs=1e-4)
    free, weak = (MatrixScaling(l2=l2).fit(P, y).transform(P) for l2 in (0, 1e-3))
    assert weak == pytest.approx(free, abs=1e-3)
    strong = MatrixScaling(l2=100).fit(P, y).transform(P)
    assert log_loss(free, y) < log_loss(strong, y) < log_loss(P, y)


@pytest.mark.parametrize("method", [StructuredVectorScaling, StructuredMatrixScaling])
def test_a_structured_scaling_is_where_its_formula_is_least(method):
    """The formula of the docstring, by itself; no step goes further down."""
    (P, y), m = drawn(500, 3, sharpness=2), 3
    found, n = method().fit(P, y), 500
    T = TemperatureScaling().fit(P, y)
    x = np.log((1 - 1 / (n + 1)) * T.transform(P) + 1 / (n + 1) / m)

    def value(numbers):
        if method is StructuredVectorScaling:
            V, pull = np.diag(numbers[:m]), m / n * (numbers @ numbers)
        else:
            V = numbers[: m * m].reshape(m, m)
            beside = (V**2).sum() - (np.diag(V) ** 2).sum()
            pull = m * (m - 1) / n * beside
            pull += m / n * ((np.diag(V) ** 2).sum() + numbers[m * m :] @ numbers[m * m :])
        z = x + x @ V.T + numbers[-m:]
        of_label = z[np.arange(n), y]
        return (np.log(np.exp(z).sum(1)) - of_label).mean() + pull

    own = found.scale if method is StructuredVectorScaling else found.matrix.ravel()
    own = np.concatenate([own, found.bias])
    assert value(own) < value(np.zeros(len(own))) - 0.0005
    assert approx_fprime(own, value, 1e-6) == pytest.approx(0, abs=2e-4)


# ---- what holds for all


@pytest.mark.parametrize("method", FAMILY)
def test_the_overconfident_is_mended_and_the_calibrated_left_alone(method):
    sharp, y = drawn(6000, 4, sharpness=3)
    fresh, labels = drawn(6000, 4, sharpness=3, seed=1)
    mended = method().fit(sharp, y).transform(fresh)
    assert log_loss(mended, labels) < log_loss(fresh, labels) - 0.2
    assert ece(mended, labels) < 0.35 * ece(fresh, labels)
    P, y = drawn(6000, 4)
    fresh, labels = drawn(6000, 4, seed=1)
    same = method().fit(P, y).transform(fresh)
    assert abs(log_loss(same, labels) - log_loss(fresh, labels)) < 0.04
    assert ece(same, labels) < 0.03


@pytest.mark.parametrize("method", FAMILY)
def test_a_perfect_classifier_stays_right(method):
    y = np.arange(300) % 3
    P = np.eye(3)[y]
    found = method().fit(P, y).transform(P)
    assert (found.argmax(1) == y).all()
    assert found.max(1).min() > 0.95


@st.composite
def rows(draw):
    m = draw(st.integers(2, 6))
    n = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P = rng.dirichlet(np.full(m, draw(st.sampled_from([0.02, 0.3, 3.0]))), n + 10)
    if draw(st.booleans()):
        P = np.round(P, 1) + 0.0
        P /= P.sum(1, keepdims=True)
    y = rng.integers(0, draw(st.integers(2, m)), n)
    y[:2] = [0, 1]
    return P[:n], y, P[n:]


@pytest.mark.parametrize("method", FAMILY)
@given(rows())
def test_rows_are_probabilities_whatever_comes(method, drawn):
    P, y, fresh = drawn
    before = P.copy(), fresh.copy()
    found = method().fit(P, y).transform(fresh)
    assert found.shape == fresh.shape
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum(1) == pytest.approx(1, abs=1e-9)
    assert (before[0] == P).all()
    assert (fresh == before[1]).all()


@given(rows())
def test_temperature_never_moves_the_likeliest_class(drawn):
    P, y, fresh = drawn
    found = TemperatureScaling().fit(P, y).transform(fresh)
    assert (found[np.arange(len(fresh)), fresh.argmax(1)] == found.max(1)).all()


def test_a_temperature_is_that_of_all_rows_whatever_classes_they_hold():
    """One number needs no rows of each class: it was fitted without the classes that are missing,
    which was 2.57 nats on a stream where the temperature of the same rows gives 1.92."""
    P, y = drawn(4000, 5, sharpness=3)
    held = P[y > 1], y[y > 1]
    by_hand = minimize_scalar(
        lambda T: log_loss(scaling.softmax(np.log(held[0] + 1e-12) / T), held[1]), bounds=(0.1, 10)
    )
    found = TemperatureScaling().fit(*held)
    assert found.temperature == pytest.approx(by_hand.x, abs=1e-4)
    assert log_loss(found.transform(P), y) < log_loss(P, y) - 0.3


@pytest.mark.parametrize("method", [one for one in FAMILY if one is not TemperatureScaling])
def test_a_class_without_validation_rows_has_what_the_temperature_gives_it(method):
    P, y = drawn(400, 4, sharpness=2)
    P, y = P[y != 2], y[y != 2]
    found, scaled = method().fit(P, y).transform(P), TemperatureScaling().fit(P, y).transform(P)
    assert found[:, 2] == pytest.approx(scaled[:, 2], abs=1e-12)
    assert np.abs(found - scaled).max() > 0.01
    sure = method().fit(P, y).transform([[0, 0, 1.0, 0]])
    assert sure == pytest.approx(np.eye(4)[[2]], abs=1e-3)
    fresh, labels = drawn(4000, 4, sharpness=2, seed=1)  # which has that class
    better = method().fit(P, y).transform(fresh)
    assert log_loss(better, labels) < log_loss(fresh, labels)


@pytest.mark.parametrize("method", FAMILY)
def test_refused(method):
    P, y = drawn(50, 3)
    with pytest.raises(InvalidPrediction, match=r"row 1: probabilities sum to 1\.2"):
        method().fit([[0.5, 0.5], [0.5, 0.7]], [0, 1])
    with pytest.raises(UnknownClass, match="row 1: label 3 is not"):
        method().fit(P[:2], [0, 3])
    with pytest.raises(ValueError, match="2 validation rows hold 1 of 3 classes"):
        method().fit(P[:2], [1, 1])
    with pytest.raises(StreamCANError, match="call fit first"):
        method().transform(P)
    with pytest.raises(InvalidPrediction, match="2 classes, fit had 3"):
        method().fit(P, y).transform([[0.5, 0.5]])


def test_parameters_out_of_range():
    with pytest.raises(ValueError, match="bins: expected at least 1, got 0"):
        HistogramBinning(bins=0)
    with pytest.raises(ValueError, match="l2: expected a number >= 0, got -1"):
        MatrixScaling(l2=-1)


# ---- bytes


@pytest.mark.parametrize("method", FAMILY)
@pytest.mark.parametrize("missing", [False, True])
def test_bytes_give_the_same_bits(method, missing):
    P, y = drawn(400, sharpness=2)
    if missing:
        P, y = P[y != 2], y[y != 2]
    fitted = method().fit(P, y)
    for again in (method.from_bytes(fitted.to_bytes()), Calibration.from_bytes(fitted.to_bytes())):
        assert type(again) is method
        assert again.transform(P).tobytes() == fitted.transform(P).tobytes()
        assert again.to_bytes() == fitted.to_bytes()
    other = next(one for one in FAMILY if one is not method)
    with pytest.raises(SnapshotMismatch, match=f"of {method.__name__}, expected {other.__name__}"):
        other.from_bytes(fitted.to_bytes())
    with pytest.raises(StreamCANError, match="to_bytes before fit"):
        method().to_bytes()


def test_bytes_keep_the_options():
    P, y = drawn(400)
    assert HistogramBinning.from_bytes(HistogramBinning(7).fit(P, y).to_bytes()).bins == 7
    assert MatrixScaling.from_bytes(MatrixScaling(0.5).fit(P, y).to_bytes()).l2 == 0.5


@pytest.mark.parametrize("method", FAMILY)
@given(data=st.data())
def test_bytes_that_were_changed_are_refused_or_work(method, data):
    P, y = drawn(60, m=3)
    content, arrays = snapshot.decode(method().fit(P, y).to_bytes())
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from([*content]))
        content[name] = data.draw(st.sampled_from([None, -1, 2, 2**40, "x", [], {"bins": 0}, {}]))
    else:
        name = data.draw(st.sampled_from([*arrays]))
        one = arrays[name]
        value = data.draw(st.sampled_from([np.nan, -1, 0, 5, 1e300]))
        arrays[name] = data.draw(st.sampled_from([
            np.zeros((2, 2, 2)), one.astype(np.float32), np.atleast_1d(one)[1:],
            np.full_like(one, value) if one.dtype.kind == "f" else one * 0 + 7,
        ]))  # fmt: skip
    try:
        again = Calibration.from_bytes(snapshot.encode(content, arrays))
    except SnapshotMismatch:
        return
    with np.errstate(all="ignore"), contextlib.suppress(InvalidPrediction):
        assert again.transform(P).shape == P.shape
