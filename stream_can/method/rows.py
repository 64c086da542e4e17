"""Check predictions: numbers, none negative, that sum to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.rounding import explained

__all__ = [
    "TOLERANCE",
    "Normalise",
    "as_float64",
    "names_of",
    "reason",
    "rounded",
    "unordered",
    "wrong_shape",
]

Array = NDArray[np.float64]
Normalise = Literal["rounded", "always"]

TOLERANCE = 1e-3
"""Tolerance of a row's sum."""
SEVERAL = "where several classes are true at once, see MultiLabelCorrector, or --rows multilabel"


def as_float64(P: Any, index: dict[Any, int] | None = None) -> Array:
    """Convert P to a C-contiguous float64 array, or raise InvalidPrediction.

    Parameters
    ----------
    P
        Anything that numpy converts to numbers. If it has names (a mapping, a Series by its index,
        a DataFrame by its columns), these must be the classes, and determine the order.
    index
        Class -> column, if the classes are known.
    """
    if type(P) is np.ndarray and P.dtype == np.float64 and P.flags.c_contiguous:
        return P
    if unordered(P):
        raise InvalidPrediction(f"predictions are a {type(P).__name__}, expected an array")
    names = list(P) if isinstance(P, Mapping) else names_of(P)
    if isinstance(P, Mapping):
        P = list(P.values())
    try:
        array = _of_pandas(P) if hasattr(P, "isna") else np.asarray(P)
    except InvalidPrediction:
        raise
    except ValueError as error:
        raise InvalidPrediction(f"predictions do not form an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InvalidPrediction(f"predictions are {array.dtype}, expected real numbers")
    if names is not None and index is not None:
        array = array[..., _order(names, index)]
    return np.asarray(array, np.float64, order="C")


def _of_pandas(data: Any) -> NDArray[Any]:
    """Convert a pandas frame or series, including extension types (Float64, double[pyarrow]).

    numpy would turn most of these into objects, since they may hold NA.
    """
    by_column = hasattr(data, "columns")
    types = list(data.dtypes) if by_column else [data.dtype]
    numbers = all(getattr(one, "kind", "O") in "fiub" for one in types)
    if not numbers or all(isinstance(one, np.dtype) for one in types):
        return np.asarray(data)
    missing = np.argwhere(np.asarray(data.isna()))
    if len(missing) and by_column:
        row, column = missing[0].tolist()
        raise InvalidPrediction(
            f"row {row}, column {data.columns[column]!r}: the probability is missing (NA);"
            " fill it in or leave the row out"
        )
    if len(missing):
        name = data.index[missing[0, 0]]
        raise InvalidPrediction(f"entry {name!r}: the probability is missing (NA); fill it in")
    return np.asarray(data.to_numpy(np.float64))


def unordered(data: Any) -> bool:
    """Whether numbers have no order, or some are masked."""
    return isinstance(data, set | frozenset) or np.ma.isMaskedArray(data)


def names_of(data: Any) -> list[Any] | None:
    """Names of a DataFrame's columns or a Series' entries; None without.

    Default column numbers of a DataFrame are not names.
    """
    if isinstance(data, np.ndarray | list | tuple):
        return None
    axis = getattr(data, "columns", None)
    if axis is None:
        axis = getattr(data, "index", None)
    if axis is None or callable(axis) or type(axis).__name__ == "RangeIndex":
        return None
    names = list(axis)
    return None if names == [f"column_{i}" for i in range(len(names))] else names


def _order(names: list[Any], index: dict[Any, int]) -> list[int]:
    """Position of each class among the names."""
    places = {name: i for i, name in enumerate(names)}
    if len(names) != len(index) or places.keys() != index.keys():
        by_text = {str(name): i for i, name in enumerate(names)}
        if len(names) != len(index) or by_text.keys() != {str(name) for name in index}:
            raise InvalidPrediction(
                f"predictions are of {', '.join(map(repr, names[:8]))}, expected the "
                f"{len(index)} classes: {', '.join(map(repr, list(index)[:8]))}"
            )
        return [by_text[str(name)] for name in index]
    return [places[name] for name in index]


def reason(row: Array, names: Sequence[Any] | None = None) -> str:
    """Why a row is not a probability vector; ``names`` are those of its classes."""
    for i, value in enumerate(row.tolist()):
        if not value >= 0 or value == np.inf:
            if names is None:
                return f"entry {i} is {value}, expected a finite number >= 0"
            if np.isnan(value):
                return f"the probability of class {names[i]!r} is missing"
            return f"the probability of class {names[i]!r} is {value}"
    with np.errstate(over="ignore"):
        total = row.sum()
    text = f"{total:.6g}"
    if abs(float(text) - 1) <= 1.001 * TOLERANCE:  # rounded, it would seem within the tolerance
        text = repr(float(total))
    way_out = ""
    if names is None and explained(row[None], total).all():
        way_out = "; rounded numbers? Divide them by their sum: P / P.sum(axis=-1, keepdims=True)"
    elif total > 1 + 10 * TOLERANCE and row.max() <= 1:
        way_out = f"; {SEVERAL}"
    return f"probabilities sum to {text}, expected 1 (within {TOLERANCE:g}){way_out}"


def wrong_shape(shape: tuple[int, ...], ndim: int, m: int) -> str:
    """Describe what is wrong with the shape of one row of m classes (ndim 1), or of many (2)."""
    expected = f"({m},)" if ndim == 1 else f"(n, {m})"
    way_out = "one column per class"
    if not shape and m == 2:
        way_out = "of two classes the probability p of the second is the row [1 - p, p]"
    elif ndim == 1 and shape == (1, m):
        way_out = "a list of one row; give the row itself"
    elif ndim == 2 and shape == (m,):
        way_out = "a single row; give a list of it, or call the method for one"
    return f"predictions have shape {shape}, expected {expected}: {way_out}"


def rounded(P: Array, digits: int) -> Array:
    """Round rows so that they still sum to 1: the difference goes to the largest remainders.

    Beyond 12 digits float64 cannot represent that; each entry is then rounded.
    """
    if digits > 12:
        return np.round(P, digits)
    scaled = P * 10.0**digits
    whole = np.floor(scaled + 1e-3)
    left = np.rint(10.0**digits - whole.sum(axis=1)).astype(int)
    rank = np.argsort(np.argsort(whole - scaled, axis=1, kind="stable"), axis=1)
    return np.asarray((whole + (rank < left[:, None])) / 10.0**digits)
