"""Streams that a replay's tests share."""

import numpy as np

from stream_can import Corrector
from stream_can.dense.result import DenseReplay
from stream_can.replay import from_arrays, steps
from stream_can.replay.steps import learner_of

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


def replay_of(chunks, corrector, ask=None, *, watch=False, **options):
    """Replay chunks as a player would a recording."""
    learner = learner_of(corrector, ask)
    result = DenseReplay(learner, watch=watch)
    for step in steps(chunks, learner, **options):
        result.add(step)
    return result


def replayed(P, y, classes=None, time=None, rates=True, delay=20, **settings):
    corrector = Corrector(classes or P.shape[1], **settings)
    result = replay_of(from_arrays(P, y, time, time), corrector, label_delay=delay)
    if rates:
        result.rates = {0.05: result.raw, 1.0: result.corrected}
    return result
