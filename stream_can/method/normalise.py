"""Normalise predictions that do not sum to 1, each by itself: whatever comes beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_can.method.checks import sums
from stream_can.method.rows import TOLERANCE, Normalise

__all__ = ["divided"]

Array = NDArray[np.float64]


def divided(P: Array, how: Normalise) -> tuple[Array, int]:
    """Divide rows by their sum where it is off and that is allowed.

    Parameters
    ----------
    P
        Shape (n, m).
    how
        "rounded": if the sum is explained by rounding to the row's number of digits, half a unit of
        the last digit for each entry. "always": any positive sum, as for scores.

    Returns
    -------
    The rows, and the number of those divided.
    """
    total = sums(P)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.isfinite(total) & (total > 0) & (np.abs(total - 1) > TOLERANCE)
        off &= (P >= 0).all(axis=1)
    if how == "rounded":
        off[off] = np.abs(total[off] - 1) <= (P.shape[1] + 1e-6) * _half_a_unit(P[off])
    if not off.any():
        return P, 0
    P = P.copy()
    P[off] /= total[off, None]
    return P, int(off.sum())


def _half_a_unit(P: Array) -> Array:
    """Half a unit of the last digit of each row; 0 for whole numbers, or more than 9 digits."""
    half = np.zeros(len(P))
    for digits in range(9, 0, -1):
        with np.errstate(over="ignore"):  # 1e302 times 10**9
            same = (np.abs(np.round(P, digits) - P) < 1e-12).all(axis=1)
        half[same] = 0.5 / 10**digits
    half[(P % 1 == 0).all(axis=1)] = 0
    return half
