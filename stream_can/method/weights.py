"""Weights of labels: docs/method.md, "Weights of labels"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.method.arrays import LEAST_WEIGHT, MOST_WEIGHT

__all__ = ["weight_of_label", "weights_in", "weights_of_labels"]


def weight_of_label(weight: Any) -> float:
    """Return a weight as a float; raise ValueError where it is none.

    >>> weight_of_label(20)
    20.0
    """
    try:
        number = float(weight)
    except (TypeError, ValueError):
        number = np.nan
    is_number = not isinstance(weight, (str, bytes, bool, np.bool_))
    if not is_number or not LEAST_WEIGHT <= number <= MOST_WEIGHT:
        raise ValueError(
            f"weight: {weight!r}, expected a number from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
        )
    return number


def weights_of_labels(weights: ArrayLike, n: int) -> NDArray[np.float64]:
    """Return a copy of the weights of n labels; raise ValueError where one is none."""
    array = np.array(weights, np.float64)
    if np.asarray(weights).dtype == bool:
        raise ValueError("weights: true or false, expected numbers")
    if array.shape != (n,):
        raise ValueError(f"weights have shape {array.shape}, expected ({n},): one per label")
    for i in np.flatnonzero(~((array >= LEAST_WEIGHT) & (array <= MOST_WEIGHT))):
        try:
            weight_of_label(array[i].item())
        except ValueError as error:
            raise ValueError(f"label {i}: {error}") from None
    return array


def weights_in(labels: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return the weights of labels, each None or a number in its field ``weight``; None where all
    count as 1."""
    weights = [1.0 if label.weight is None else label.weight for label in labels]
    return np.array(weights) if weights.count(1.0) < len(weights) else None
