"""Streams that a replay's tests share."""

import numpy as np

from stream_can import Corrector
from stream_can.replay import Replay, from_arrays, steps

ODD_NAMES = [
    "$0-$50",
    "$\\nope$",
    "_hidden",
    "_",
    "[x]",
    "[/INST]",
    ":smile:",
    "<b>&amp;",
    "分类别",
    "فئة",
    "😀👩‍👩‍👧",
    "x" * 200,
]


def stream(n=4000, m=4, sharpness=1.0, seed=0):
    """Predictions that are calibrated at sharpness 1 and overconfident above."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.7), n)
    y = np.array([rng.choice(m, p=row) for row in P])
    P = np.maximum(P, 1e-9) ** sharpness
    return P / P.sum(1, keepdims=True), y


def replayed(P, y, classes=None, time=None, rates=True, delay=20, **settings):
    corrector = Corrector(classes or P.shape[1], **settings)
    result = Replay(corrector)
    for step in steps(from_arrays(P, y, time, time), corrector, label_delay=delay):
        result.add(step)
    if rates:
        result.rates = {0.05: result.raw, 1.0: result.corrected}
    return result
