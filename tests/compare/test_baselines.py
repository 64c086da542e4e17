"""What an engineer would build first."""

import numpy as np
import pytest
from scipy.optimize import minimize

from stream_can.calibration import MatrixScaling, VectorScaling
from stream_can.compare import rivals
from stream_can.compare.baselines import PENALTIES, best_penalty, shifted_mix
from stream_can.scores import log_loss
from tests.compare.streams import drifting, stream_of

pytestmark = pytest.mark.fast

P, Y = drifting()
STREAM = stream_of(P, Y)


def rows_of(stream, name, every=300):
    (only,) = (one for one in rivals(every, names="all") if one.name == name)
    return np.concatenate([*only.play(stream)])


def test_em_finds_the_mix_that_explains_the_rows_best():
    """Against the maximum of the likelihood, found by another road; and near the truth."""
    rng = np.random.default_rng(3)
    trained, moved = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
    means = 1.5 * np.eye(3)
    y = rng.choice(3, 4000, p=moved)
    x = rng.normal(size=(4000, 3)) + means[y]
    joint = trained * np.exp(-0.5 * ((x[:, None] - means) ** 2).sum(2))
    rows = joint / joint.sum(1, keepdims=True)

    def minus_likelihood(z):
        q = np.exp(z - z.max())
        return -np.log(rows @ (q / q.sum() / trained)).mean()

    found = np.exp(minimize(minus_likelihood, np.zeros(3), tol=1e-10).x)
    q = shifted_mix(rows, trained)
    assert q == pytest.approx(found / found.sum(), abs=1e-4)
    assert q == pytest.approx(moved, abs=0.03)


def test_label_shift_is_of_calibrated_rows_before_and_uses_no_label():
    found = rows_of(STREAM, "label shift by EM")
    scaled = VectorScaling().fit(P[:400], Y[:400]).transform(P[400:])
    assert (found[:300] == scaled[:300]).all()
    trained = (np.bincount(Y[:400], minlength=4) + 1) / 404
    expected = scaled[300:600] * shifted_mix(scaled[:300], trained) / trained
    expected /= expected.sum(1, keepdims=True)
    assert found[300:600] == pytest.approx(expected, abs=1e-12)
    other = rows_of(STREAM._replace(y=(STREAM.y + 1) % 4), "label shift by EM")
    assert (found == other).all()


def test_logistic_regression_learns_what_one_number_a_class_cannot():
    """Where two classes are confused in turn, and no validation row is there."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 6000)
    z = rng.normal(size=(6000, 3)) + 2 * np.eye(3)[y]
    z = z @ np.array([[1.0, 0.9, 0], [0, 1.0, 0.9], [0.9, 0, 1.0]])
    Q = np.exp(z - z.max(1, keepdims=True))
    Q /= Q.sum(1, keepdims=True)
    stream = stream_of(Q, y, held=0)
    found = rows_of(stream, "logistic, refitted", 500)
    assert (found[:500] == Q[:500]).all()
    known = slice(0, 1000 - 20)
    l2 = best_penalty(Q[: 500 - 20], y[: 500 - 20])
    assert l2 in PENALTIES
    assert len(y[known]) > 2 * (500 - 20)  # chosen anew
    l2 = best_penalty(Q[known], y[known])
    expected = MatrixScaling(l2).fit(Q[known], y[known]).transform(Q[1000:1500])
    assert found[1000:1500] == pytest.approx(expected, abs=1e-9)
    whole = VectorScaling().fit(Q, y).transform(Q)
    assert log_loss(found[1000:], y[1000:]) < log_loss(whole[1000:], y[1000:]) - 0.05


def test_the_penalty_is_large_where_labels_are_few_and_noise():
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(12), 120)
    noise = np.array([rng.choice(12, p=row) for row in rows])
    assert best_penalty(rows, noise) == PENALTIES[-1]


def test_rivers_regression_learns_labels_as_they_arrive():
    found = rows_of(STREAM, "river, logistic")
    assert (found[:21] == STREAM.P[:21]).all()
    assert (found[21:40] != STREAM.P[21:40]).any()
    assert found.sum(1) == pytest.approx(np.ones(len(found)))
    assert log_loss(found[750:], STREAM.y[750:]) < log_loss(STREAM.P[750:], STREAM.y[750:])
