"""What a prediction must be: numbers, none negative, that sum to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction

__all__ = ["TOLERANCE", "as_float64", "divided", "reason"]

Array = NDArray[np.float64]

TOLERANCE = 1e-3
"""How far the sum of a row may be from 1."""


def as_float64(P: ArrayLike) -> Array:
    """P as a C-contiguous float64 array, or InvalidPrediction."""
    try:
        array = np.asarray(P)
    except ValueError as error:
        raise InvalidPrediction(f"predictions do not form an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InvalidPrediction(f"predictions are {array.dtype}, expected real numbers")
    return np.asarray(array, np.float64, order="C")


def reason(row: Array, names: Sequence[Any] | None = None) -> str:
    """Why a row is no probability vector, in words; ``names`` are those of its classes."""
    for i, value in enumerate(row.tolist()):
        if not value >= 0 or value == np.inf:
            if names is None:
                return f"entry {i} is {value}, expected a finite number >= 0"
            if np.isnan(value):
                return f"the probability of class {names[i]!r} is missing"
            return f"the probability of class {names[i]!r} is {value}"
    with np.errstate(over="ignore"):
        total = row.sum()
    return f"probabilities sum to {total:.6g}, expected 1 (within {TOLERANCE:g})"


def divided(P: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Rows of scores as probabilities, where their sum is not near enough to 1 already.

    Returns
    -------
    The rows, shape (n, m), each divided by its sum where that is off; and which of them cannot be,
    shape (n,): those that hold NaN, infinite or negative numbers, or nothing but zeros.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = P.sum(axis=1, keepdims=True)
        hopeless = ~(np.isfinite(total) & (total > 0) & (P >= 0).all(axis=1, keepdims=True))
        # A little less than the tolerance: sums taken in another order differ in the last bit.
        off = ~hopeless & (np.abs(total - 1) > 0.999 * TOLERANCE)
    return np.divide(P, total, out=P.copy(), where=off), hopeless[:, 0]
