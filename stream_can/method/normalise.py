"""Normalise predictions that do not sum to 1, each by itself: whatever comes beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_can.method.checks import sums
from stream_can.method.rounding import explained
from stream_can.method.rows import TOLERANCE, Normalise

Array = NDArray[np.float64]


def divided(P: Array, how: Normalise) -> tuple[Array, int]:
    """Divide rows by their sum where it is off and that is allowed.

    Parameters
    ----------
    P
        Shape (n, m).
    how
        "rounded": if rounding to the row's digits or bits explains the sum. "always":
        any positive sum, as for scores.

    Returns
    -------
    The rows, and the number of those divided.
    """
    total = sums(P)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.isfinite(total) & (total > 0) & (np.abs(total - 1) > TOLERANCE)
        off &= (P >= 0).all(axis=1)
    if how == "rounded":
        off[off] = explained(P[off], total[off])
    if not off.any():
        return P, 0
    P = P.copy()
    P[off] /= total[off, None]
    return P, int(off.sum())
