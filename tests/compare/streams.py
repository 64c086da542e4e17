"""A stream to compare rivals on, small and drifting."""

import numpy as np

from stream_can.compare import Stream


def drifting(n=1500, m=4, held=400, seed=0):
    """Overconfident predictions whose class mix turns; the first rows are for validation."""
    rng = np.random.default_rng(seed)
    at = np.linspace(0, 1, held + n)[:, None]
    mix = (1 - at) * np.linspace(1, 4, m) + at * np.linspace(4, 1, m)
    mix /= mix.sum(1, keepdims=True)
    y = (rng.random((held + n, 1)) > mix.cumsum(1)[:, :-1]).sum(1)
    z = 2.5 * (rng.normal(size=(held + n, m)) + 1.2 * np.eye(m)[y])
    P = np.exp(z - z.max(1, keepdims=True))
    return P / P.sum(1, keepdims=True), y


def stream_of(P, y, held=400, delay=20, classes=None):
    known = np.full(len(y) - held, True)
    return Stream(
        list(classes or range(P.shape[1])),
        P[held:],
        y[held:],
        known,
        known,
        (P[:held], y[:held]),
        label_delay=delay,
    )
