"""The Kalman filter against its formulas with whole matrices."""

import numpy as np
import pytest

from stream_can.compare import Stream, compare, rivals
from stream_can.compare.kalman import DEVIATION, HALF_LIFE, SCALE, KalmanFilter, kalman
from tests.compare.streams import drifting, stream_of

pytestmark = pytest.mark.fast


def softmax(z):
    return np.exp(z) / np.exp(z).sum()


def by_hand(stream, fits):
    """The update in terms of inverse covariances, with H and R as they are written, and with what
    all classes have in common: that is left out of the logits, not of the weights."""
    m = stream.P.shape[1]
    centre = np.eye(m) - 1 / m
    d = m * (m + 1)
    gamma = 2 ** (-1 / HALF_LIFE)
    start = np.hstack([centre, np.zeros((m, 1))]).ravel()
    prior = DEVIATION**2 * np.eye(d) + SCALE**2 * np.outer(start, start)
    w, P = start.copy(), prior.copy()

    def observed(p):
        x = np.log(p + 1e-12)
        return np.kron(np.eye(m), np.append(x - x.mean(), 1))

    def learn(p, y):
        nonlocal w, P
        w, P = start + gamma * (w - start), gamma**2 * P + (1 - gamma**2) * prior
        H = observed(p)
        r = softmax(H @ w)
        P = np.linalg.inv(np.linalg.inv(P) + H.T @ (np.diag(r) - np.outer(r, r)) @ H)
        w = w + P @ H.T @ (np.eye(m)[y] - r)

    if fits:
        for p, y in zip(*stream.validation, strict=True):
            learn(p, y)
    rows = []
    for i, p in enumerate(stream.P):
        j = i - 1 - stream.label_delay
        if j >= 0 and stream.arrives[j]:
            learn(stream.P[j], stream.y[j])
        H = observed(p)
        H = centre @ H
        rows.append(softmax(H @ w / np.sqrt(1 + np.pi / 8 * np.diag(H @ P @ H.T))))
    return np.array(rows)


@pytest.mark.parametrize(("m", "delay", "fits"), [(2, 0, False), (4, 15, False), (3, 0, True)])
def test_each_row_is_that_of_the_formulas(m, delay, fits):
    P, y = drifting(300, m, held=60)
    arrives = np.random.default_rng(1).random(300) < 0.8
    stream = stream_of(P, y, 60, delay)._replace(arrives=arrives)
    rows = np.concatenate(list(kalman(fits=fits)(stream)))
    assert rows == pytest.approx(by_hand(stream, fits), abs=1e-9)


def test_certain_rows_and_long_streams_keep_the_covariance_whole():
    P, y = np.eye(3)[np.arange(3000) % 3], (np.arange(3000) + 1) % 3  # always wrong
    known = np.full(3000, True)
    stream = Stream([0, 1, 2], P, y, known, known, (P, y), label_delay=0)
    rows = np.concatenate(list(kalman(fits=False)(stream)))
    assert np.isfinite(rows).all()
    assert rows.sum(1) == pytest.approx(1)
    assert (rows[-10:].argmax(1) == y[-10:]).all()
    found = KalmanFilter(3, half_life=20)
    for phi, label in zip(found.features(P), y, strict=True):
        found.learn(phi, label)
    assert found.covariance == pytest.approx(found.covariance.T)
    assert np.linalg.eigvalsh(found.covariance).min() > -1e-12


def test_where_pairs_of_classes_are_confused_it_learns_them():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 6000)
    said = np.where(rng.random(6000) < 0.6, (y + 1) % 4, y)  # most of each class look like another
    P = 0.8 * np.eye(4)[said] + 0.05
    raw, found, _ = compare(stream_of(P, y), rivals(names="kalman"))
    late = slice(2000, None)
    assert raw.hits[late].mean() < 0.45
    assert found.hits[late].mean() > 0.55


def test_too_many_classes_are_named():
    with pytest.warns(UserWarning, match=r"kalman, kalman-fitted: at most 20 classes, here are 21"):
        left = rivals(names="all", classes=21)
    assert len(rivals(names="all", classes=20)) == len(left) + 2
    with pytest.raises(ValueError, match="rivals: kalman: at most 20 classes, here are 77"):
        rivals(names="kalman", classes=77)
    with pytest.warns(UserWarning, match="logistic-refitted: at most 30 classes, here are 77"):
        assert rivals(classes=77)
