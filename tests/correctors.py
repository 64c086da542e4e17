"""A corrector that is not new."""

import numpy as np

from stream_can import Corrector

GOOD = [0.2, 0.3, 0.5]


def lived_in(**settings):
    """A corrector of three classes that has seen some things."""
    rng = np.random.default_rng(0)
    corrector = Corrector(["a", "b", "c"], train_counts=[5, 3, 2], **settings)
    P = rng.dirichlet([1, 1, 1], 40)
    corrector.process_many(P)
    corrector.learn_many(P, rng.choice(["a", "b", "c"], 40))
    return corrector
