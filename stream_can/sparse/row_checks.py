"""Checks of sparse rows: which are valid, and what is wrong with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.rows import TOLERANCE
from stream_can.sparse.class_numbers import ClassNumbers
from stream_can.sparse.loop import MOST_LISTED, Fault, check
from stream_can.sparse.rows import Rows

Array = NDArray[np.float64]


def checked_rows(ids: ArrayLike, probs: ArrayLike, classes: ClassNumbers) -> Rows:
    """Check and copy rows; a copy cannot change while the loop runs. InvalidPrediction where one is
    invalid."""
    id_array, P = np.asarray(ids), np.asarray(probs)
    if id_array.ndim != 2 or P.shape != id_array.shape:
        raise InvalidPrediction(
            f"ids have shape {id_array.shape} and probs {P.shape}, expected (n, k) of both"
        )
    if id_array.size and id_array.dtype.kind not in "iu":
        raise InvalidPrediction(f"ids are {id_array.dtype}, expected integers")
    if P.size and P.dtype.kind not in "fiu":
        raise InvalidPrediction(f"probs are {P.dtype}, expected floats")
    if id_array.dtype != np.int32 and id_array.size:  # no number may wrap around to another
        out = np.argwhere((id_array < -1) | (id_array >= classes.m))
        if len(out):
            row, column = out[0].tolist()
            raise InvalidPrediction(f"row {row}: {classes.unknown(int(id_array[row, column]))}")
    numbers, P = np.array(id_array, np.int32, order="C"), np.array(P, np.float64, order="C")
    ks, fault, row, column = check(numbers, P, classes.m, classes.known)
    if fault != Fault.NONE:
        raise InvalidPrediction(
            f"row {row}: {_reason(numbers[row], P[row], fault, column, classes)}"
        )
    return Rows(numbers, P, ks)


def numbered_row(row: Mapping[Any, float], classes: ClassNumbers) -> Rows:
    """Check a row by name; new names are numbered once everything else is valid."""
    rows = checked_row(row, classes)
    if classes.names is not None and rows.ids.max(initial=-1) >= classes.known:
        rows.ids[0] = classes.numbers_of(list(row), "row", add=True, error=InvalidPrediction)
    return rows


def checked_row(row: Mapping[Any, float], classes: ClassNumbers) -> Rows:
    """Check a row by name; new names have numbers for this call only."""
    if not isinstance(row, Mapping):
        raise InvalidPrediction(f"row: {type(row).__name__}, expected {{class: probability}}")
    names = list(row)
    if len(names) > MOST_LISTED:
        raise InvalidPrediction(_reason(names, np.empty(0), Fault.LONG, 0, classes))
    ids = classes.numbers_of(names, "row", add=False, error=InvalidPrediction)
    try:
        P = np.array([[float(p) for p in row.values()]], np.float64).reshape(1, len(ids))
    except (TypeError, ValueError):
        raise InvalidPrediction("row: probabilities are no numbers") from None
    numbers = np.array([ids], np.int32).reshape(1, len(ids))
    ks, fault, _, column = check(numbers, P, classes.m, classes.m)
    if fault != Fault.NONE:
        raise InvalidPrediction(_reason(names, P[0], fault, column, classes))
    return Rows(numbers, P, ks)


def _reason(names: Any, p: Array, fault: Fault, column: int, classes: ClassNumbers) -> str:
    """Describe what is wrong with a row."""
    listed_class = names[column] if len(names) else None
    name = repr(listed_class) if isinstance(listed_class, str) else listed_class
    if fault == Fault.EMPTY:
        return "no class is listed, expected 1 to 128"
    if fault == Fault.LONG:
        return f"{len(names)} classes are listed, expected 1 to {MOST_LISTED}; send the likeliest"
    if fault == Fault.GAP:
        return f"class {name} in column {column} is behind a -1; pads come last"
    if fault == Fault.RANGE:
        return f"{classes.unknown(int(names[column]))}; -1 pads"
    if fault == Fault.TWICE:
        return f"class {name} is listed twice, the second time in column {column}"
    if fault == Fault.NEGATIVE:
        return f"probability {p[column]} of class {name}, expected a number >= 0"
    if fault == Fault.PAD:
        return f"probability {p[column]} in column {column}, whose class is -1, expected 0"
    total = float(np.nansum(p))
    if fault == Fault.ZERO:
        return "all classes are listed and their probabilities sum to 0, expected 1"
    return f"probabilities sum to {total:.6g}, expected at most 1 (within {TOLERANCE:g})"
