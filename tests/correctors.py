"""Correctors that are not new, and correctors driven through events."""

import numpy as np

from stream_can import Corrector
from tests.strategies import receipt_of

GOOD = [0.2, 0.3, 0.5]


def lived_in(**settings):
    """A corrector of three classes that has seen some things."""
    rng = np.random.default_rng(0)
    corrector = Corrector(["a", "b", "c"], train_counts=[5, 3, 2], **settings)
    P = rng.dirichlet([1, 1, 1], 40)
    corrector.process_many(P)
    corrector.learn_many(P, rng.choice(["a", "b", "c"], 40))
    return corrector


def run(corrector, P, events):
    """Drive a corrector one call at a time; returns the rows and the receipts."""
    out, kept = [], {}
    for verb, i, y, kind in events:
        if verb == "process":
            better, kept[i] = corrector.process_one(P[i], receipt=True)
            out += [better, kept[i]]
        elif verb == "observe":
            corrector.observe_one(P[i])
        elif verb == "learn":
            corrector.learn_one(P[i], y, receipt=receipt_of(kind, kept.get(i), P.shape[1]))
        else:
            corrector.learn_one(None, y)
    return out
