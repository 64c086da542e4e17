"""Online Platt scaling and tracking, against the algorithms as they are written."""

import numpy as np
import pytest

from stream_can.compare import Stream
from stream_can.compare.online import online_platt

pytestmark = pytest.mark.fast


def stream(m=2, n=1500, delay=0, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.8), n)
    y = (rng.random((n, 1)) > (P**2 / (P**2).sum(1, keepdims=True)).cumsum(1)[:, :-1]).sum(1)
    arrives = rng.random(n) < 0.9
    return Stream([*range(m)], P, y, arrives, arrives, (P, y), label_delay=delay)


def by_hand(stream, tracks):
    """A plain loop: the probability of a yes of each row, learned from labels as they come."""
    n, m = stream.P.shape
    top = np.full(n, 1) if m == 2 else stream.P.argmax(1)
    p = stream.P[np.arange(n), top]
    near = np.clip(p, 1e-5, 1 - 1e-5)
    x, yes = np.log(near / (1 - near)), (top == stream.y).astype(float)
    theta, A = np.zeros(2), np.eye(2) / 0.1**2
    bins = [[0.05 + 0.1 * k, 1] for k in range(10)]
    q, sent = np.zeros(n), np.zeros(n)
    for i in range(n):
        j = i - 1 - stream.label_delay
        if j >= 0 and stream.arrives[j]:
            g = (1 / (1 + np.exp(-(theta @ [x[j], 1]))) - yes[j]) * np.array([x[j], 1])
            A = A + np.outer(g, g)
            theta = theta - np.linalg.solve(A, g) / 0.1
            bins[min(int(10 * q[j]), 9)][0] += yes[j]
            bins[min(int(10 * q[j]), 9)][1] += 1
        q[i] = 1 / (1 + np.exp(-(theta @ [x[i], 1])))
        total, count = bins[min(int(10 * q[i]), 9)]
        sent[i] = total / count if tracks else q[i]
    return top, p, sent


@pytest.mark.parametrize("m", [2, 5])
@pytest.mark.parametrize("delay", [0, 40])
@pytest.mark.parametrize("tracks", [False, True])
def test_each_row_is_that_of_the_written_algorithm(m, delay, tracks):
    given = stream(m, delay=delay)
    top, p, sent = by_hand(given, tracks)
    rows = np.concatenate(list(online_platt(tracks=tracks)(given)))
    at = np.arange(len(rows))
    assert rows[at, top] == pytest.approx(sent, abs=1e-6)
    assert rows.sum(1) == pytest.approx(1)
    others = rows / ((1 - sent) / (1 - p))[:, None]
    others[at, top] = given.P[at, top]
    assert others == pytest.approx(given.P, abs=1e-6)  # the others keep their proportions


def test_certain_rows_are_shared_out():
    P = np.eye(3)[np.arange(60) % 3]
    y = (np.arange(60) + 1) % 3  # always wrong
    known = np.full(60, True)
    rows = np.concatenate(
        list(online_platt(tracks=False)(Stream([0, 1, 2], P, y, known, known, (P, y), None, 0)))
    )
    assert np.isfinite(rows).all()
    assert rows.sum(1) == pytest.approx(1)
    assert rows[-1, 59 % 3] < 0.1
