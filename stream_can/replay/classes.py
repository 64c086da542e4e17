"""Recall and precision of each class, and what a correction changes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class ClassScores:
    """Rows, recall and precision of each class.

    Parameters
    ----------
    m
        Number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> scores = ClassScores(2)
    >>> scores.add(np.array([0, 0]), np.array([0, 1]))
    >>> scores.recall.tolist(), scores.precision.tolist()
    ([1.0, 0.0], [0.5, nan])
    """

    def __init__(self, m: int) -> None:
        self.rows = np.zeros(m, np.int64)
        """Number of rows labelled with each class."""
        self.weight = np.zeros(m)
        """Sum of the weights of their labels: without weights their number."""
        self.predicted = np.zeros(m)
        """The same of the rows predicted as each class."""
        self.right = np.zeros(m)
        """The same of the rows that are both."""

    def add(
        self,
        best: NDArray[np.integer[Any]],
        y: NDArray[np.integer[Any]],
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Add likeliest classes, shape (n,), the index of each label, and the labels' weights."""
        m, right = len(self.rows), best == y
        rows = np.bincount(y, minlength=m)
        self.rows += rows
        self.weight += rows if weights is None else np.bincount(y, weights, m)
        self.predicted += np.bincount(best, weights, m)
        self.right += np.bincount(y[right], None if weights is None else weights[right], m)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Share of the rows of a class that are predicted as it; nan without rows."""
        return _share(self.right, self.weight)

    @property
    def precision(self) -> NDArray[np.float64]:
        """Share of the rows predicted as a class that belong to it; nan without such rows."""
        return _share(self.right, self.predicted)


class ClassChanges:
    """Rows of each of m classes that a correction made right or wrong."""

    def __init__(self, m: int) -> None:
        self.right, self.wrong = np.zeros(m, np.int64), np.zeros(m, np.int64)
        """Number of rows that were wrong before and are right after, and the reverse."""
        self.gain = np.zeros(m)
        """The first less the second, each row counted as the weight of its label;"""
        self.squares = np.zeros(m)
        """its variance, were each of them a fair coin: the sum of their squared weights."""

    def add_hits(
        self,
        was: NDArray[np.bool_],
        now: NDArray[np.bool_],
        y: NDArray[np.integer[Any]],
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Add whether rows are right before and after, shape (n,), their labels and the weights of
        these."""
        m = len(self.gain)
        right = np.bincount(y[now & ~was], minlength=m)
        wrong = np.bincount(y[was & ~now], minlength=m)
        self.right += right
        self.wrong += wrong
        if weights is None:
            self.gain += right - wrong
            self.squares += right + wrong
        else:
            gains = weights * (now.astype(np.float64) - was)
            self.gain += np.bincount(y, gains, m)
            self.squares += np.bincount(y, gains**2, m)


def _share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    return part / np.where(whole > 0, whole, np.nan)
