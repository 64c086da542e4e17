"""Recall and precision of each class."""

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
        self.predicted = np.zeros(m, np.int64)
        """Number of rows predicted as each class."""
        self.right = np.zeros(m, np.int64)
        """Number of rows that are both."""

    def add(self, best: NDArray[np.integer[Any]], y: NDArray[np.integer[Any]]) -> None:
        """Add likeliest classes, shape (n,), and the index of each label."""
        m = len(self.rows)
        self.rows += np.bincount(y, minlength=m)
        self.predicted += np.bincount(best, minlength=m)
        self.right += np.bincount(y[best == y], minlength=m)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Share of the rows of a class that are predicted as it; nan without rows."""
        return _share(self.right, self.rows)

    @property
    def precision(self) -> NDArray[np.float64]:
        """Share of the rows predicted as a class that belong to it; nan without such rows."""
        return _share(self.right, self.predicted)


def _share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    return part / np.where(whole > 0, whole, np.nan)
