"""ChosenLabels: whether the rows with a label are predicted as other rows of the same time are."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

APART = 0.15
"""Half the distance between the predictions of labelled rows and of as many rows at random, beyond
chance, from which on labels look chosen."""
TENTHS = 10


class Excess:
    """Labelled rows by some property of their prediction, less those expected at random.

    Labels are drawn without replacement from the rows of their step alone, so that a class mix that
    drifts, or labels that end, are no excess.
    """

    def __init__(self, kinds: int) -> None:
        self.rows, self.over, self.variance = np.zeros((3, kinds))
        """By kind: labelled rows, their excess, and the variance of that by chance."""

    def count_kinds(self, kind: NDArray[np.intp], known: NDArray[np.bool_]) -> None:
        """Add the rows of a step, by the number of their kind."""
        n, labelled, kinds = len(known), int(known.sum()), len(self.rows)
        rows = np.bincount(kind[known], minlength=kinds)
        share = np.bincount(kind, minlength=kinds) / n
        self.rows += rows
        self.over += rows - labelled * share
        self.variance += labelled * (n - labelled) / max(n - 1, 1) * share * (1 - share)

    def is_large(self, n: int) -> bool:
        """Whether n labelled rows in all were chosen by it."""
        chance = np.sqrt(self.variance / (2 * math.pi)).sum()
        return bool(0.5 * np.abs(self.over).sum() >= APART * n + 2 * chance)


class ChosenLabels:
    """Excess of labelled rows by predicted class and by confidence, over steps with some unlabelled
    rows."""

    def __init__(self, classes: int) -> None:
        self.by_class, self.by_confidence = Excess(classes), Excess(TENTHS)

    def add_predictions(self, P: NDArray[np.float64], known: NDArray[np.bool_]) -> None:
        """Add the rows of a step, shape (n, m), of which some have no label."""
        self.by_class.count_kinds(P.argmax(axis=1), known)
        tenths = np.minimum(P.max(axis=1) * TENTHS, TENTHS - 1).astype(np.intp)
        self.by_confidence.count_kinds(tenths, known)
