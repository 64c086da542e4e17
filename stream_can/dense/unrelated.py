"""Rows that say nothing of their labels: of other rows, or of a classifier that knows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["are_unrelated", "by_chance", "unrelated"]

FEWEST_LABELS = 300
"""Labels from which on rows are doubted."""
SIGMAS, RIGHT_SIGMAS = 3, 2
"""Standard deviations by which chi-square, or the number of right rows, is more than chance."""


def by_chance(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Number of rows by predicted class and label if these were unrelated, shape (m, m)."""
    expected: NDArray[np.float64] = pairs.sum(1, keepdims=True) * pairs.sum(0) / max(pairs.sum(), 1)
    return expected


def are_unrelated(pairs: NDArray[np.int64]) -> bool:
    """Whether predicted classes and labels are related no more than by chance, by Pearson's
    chi-square and by the number of rows that are right; also where all are predicted as one class.

    Parameters
    ----------
    pairs
        Number of labelled rows by predicted class and label, shape (m, m).
    """
    expected = by_chance(pairs)
    right = expected.trace()
    if pairs.trace() > right + RIGHT_SIGMAS * np.sqrt(right):
        return False
    used = np.ix_(pairs.sum(1) > 0, pairs.sum(0) > 0)
    pairs, expected = pairs[used], expected[used]
    freedom = (len(pairs) - 1) * (pairs.shape[1] - 1)
    chi_square = ((pairs - expected) ** 2 / expected).sum()
    return bool(chi_square <= freedom + SIGMAS * np.sqrt(2 * freedom))


def unrelated(result: Any) -> list[str]:
    """The question, where also the corrected rows tell less of the labels than their shares do."""
    if result.pairs is None or result.has_weights or result.raw.n < FEWEST_LABELS:
        return []
    counts = result.pairs.sum(0)
    shares = counts[counts > 0] / counts.sum()
    if len(shares) < 2 or not are_unrelated(result.pairs):
        return []
    of_shares = float(-(shares * np.log(shares)).sum())
    if result.corrected.log_loss < of_shares:
        return []
    return [
        f"rows and labels agree no more than by chance, in {100 * result.raw.accuracy:.1f} % of"
        f" {result.raw.n:,}, and the corrected rows have a larger log loss than the shares of the"
        f" labels alone: {result.corrected.log_loss:.3f} and {of_shares:.3f}. Does each label"
        " belong to its row? If so, the classifier knows nothing of them, and no correction helps."
    ]
