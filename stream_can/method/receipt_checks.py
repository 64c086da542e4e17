"""Receipt checks: what users pass as receipts is refused, for every kind of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.rows import TOLERANCE

Receipts = NDArray[np.float32]


def as_array(receipts: ArrayLike, *, single: bool) -> NDArray[Any]:
    """Receipts of users as an array with a receipt per row; InvalidPrediction where they are
    none."""
    try:
        array = np.asarray(receipts)
    except ValueError:  # lists of different lengths
        raise InvalidPrediction(f"receipt{'' if single else 's'}: no array of numbers") from None
    return array[None] if single else array


def require_size(array: NDArray[Any], shape: tuple[int, ...], *, single: bool = False) -> None:
    """InvalidPrediction where receipts, the first axis the rows, are no floats of this shape."""
    if array.shape != shape or array.dtype.kind != "f":
        receipts, first, row = ("receipt is", 1, "row") if single else ("receipts are", 0, "rows")
        raise InvalidPrediction(
            f"{receipts} {array.dtype} of shape {array.shape[first:]}, expected float32 of shape"
            f" {shape[first:]}: what the corrector returned with the {row}"
        )


def require_probabilities(
    receipts: NDArray[Any],
    *,
    single: bool = False,
    first: int = 0,
    most: float = 1 + TOLERANCE,
    tail: int = 0,
) -> None:
    """InvalidPrediction for a number of receipts that is no probability, nor NaN.

    Parameters
    ----------
    first
        Number of the first row.
    most
        The largest number that a receipt has.
    tail
        Count of the last numbers of a receipt that are no probabilities, and may be any but
        infinite ones.
    """
    is_valid = (receipts >= 0) & (receipts <= most) | np.isnan(receipts)
    if tail:
        is_valid[..., -tail:] = ~np.isinf(receipts[..., -tail:])
    if not is_valid.all():
        at = np.unravel_index(int(is_valid.argmin()), is_valid.shape)
        row = "receipt" if single else f"receipt of row {first + at[0]}"
        raise InvalidPrediction(f"{row}: {receipts[at]}, expected probabilities, or NaN")


def checked(
    receipts: ArrayLike,
    shape: tuple[int, ...],
    *,
    single: bool = False,
    most: float = 1 + TOLERANCE,
) -> Receipts:
    """A copy of receipts of users, shape (n, ...); of a ``single`` row they lack the first axis.

    Raises
    ------
    InvalidPrediction
        They have another shape or type, or a number is no probability, nor NaN.
    """
    array = as_array(receipts, single=single)
    require_size(array, shape, single=single)
    with np.errstate(over="ignore"):  # infinite values are refused below
        numbers = np.array(array, np.float32, order="C")
    require_probabilities(numbers, single=single, most=most)
    return numbers


def require_row(receipts: object, row: object, *, single: bool) -> None:
    """InvalidPrediction for receipts without the rows that they belong to."""
    if receipts is not None and row is None:
        message = "receipt: it needs the row that it belongs to"
        raise InvalidPrediction(
            message if single else "receipts: they need the rows that they belong to"
        )
