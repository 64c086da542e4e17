"""Check predictions: numbers, none negative, that sum to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.rounding import explained

Array = NDArray[np.float64]
Normalise = Literal["rounded", "always"]

TOLERANCE = 1e-3
"""Tolerance of a row's sum."""
DIVIDE = "Divide them by their sum: P / P.sum(axis=-1, keepdims=True), or set normalise to always"
SCORES = "scores? Divide rows by their sum (--normalise always)"
SEVERAL = "several classes true at once? See MultiLabelCorrector (--rows multilabel)"


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
    of_rows = isinstance(P, list) and P and not isinstance(P[0], float | int)
    for data in (P, *P) if of_rows else (P,):
        if unordered(data):
            raise InvalidPrediction(f"predictions are a {type(data).__name__}, expected an array")
    P = _by_class(P)
    names = list(P) if isinstance(P, Mapping) else names_of(P)
    if isinstance(P, Mapping):
        P = list(P.values())
    try:
        array = _of_pandas(P) if hasattr(P, "isna") else np.asarray(P)
    except InvalidPrediction:
        raise
    except ValueError as error:
        raise InvalidPrediction(f"predictions do not form an array: {error}") from None
    if array.dtype == object and (rows := _stacked(array)) is not None:
        array, names = rows, None
    if array.dtype.kind not in "fiub":
        raise InvalidPrediction(f"predictions are {array.dtype}, expected real numbers")
    if names is not None and index is not None:
        array = array[..., _order(names, index)]
    return np.asarray(array, np.float64, order="C")


def _by_class(P: Any) -> Any:
    """Rows that are lists of {"label", "score"}, or of {class: probability}, with their names."""
    if not isinstance(P, list) or not P:
        return P
    if names_of(P[0]) is not None:  # Series
        P = [dict(zip(names_of(row) or (), row, strict=True)) for row in P]
    if isinstance(P[0], dict) and P[0].keys() >= {"label", "score"}:
        try:
            row = {entry["label"]: entry["score"] for entry in P}
        except (KeyError, TypeError):
            return P
        return row if len(row) == len(P) else P
    if not isinstance(P[0], dict | list) or not isinstance(_by_class(P[0]), dict):
        return P
    rows = [_by_class(row) for row in P]
    if not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        raise InvalidPrediction("the rows do not all name the same classes")
    return _NamedRows(rows)


class _NamedRows:
    """Rows of the same names."""

    def __init__(self, rows: list[dict[Any, Any]]) -> None:
        self.columns = list(rows[0])
        self._numbers = [[row[name] for name in self.columns] for row in rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._numbers, dtype)


def _stacked(cells: NDArray[Any]) -> NDArray[Any] | None:
    """A column of lists or arrays as rows; None for anything else."""
    if cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0]
    if cells.ndim != 1 or not all(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
        return None
    lengths = {len(cell): i for i, cell in reversed([*enumerate(cells)])}
    if len(lengths) > 1:
        (n, _), (k, i) = sorted(lengths.items(), key=lambda item: item[1])[:2]
        raise InvalidPrediction(f"row {i}: {k} probabilities, and row 0 has {n}")
    return np.array(cells.tolist())


def _of_pandas(data: Any) -> NDArray[Any]:
    """Convert a pandas frame or series, including extension types (Float64, double[pyarrow]).

    numpy would turn most of these into objects, since they may hold NA.
    """
    by_column = hasattr(data, "columns")
    types = list(data.dtypes) if by_column else [data.dtype]
    numbers = all(getattr(dtype, "kind", "O") in "fiub" for dtype in types)
    if not numbers or all(isinstance(dtype, np.dtype) for dtype in types):
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
                logits = -np.inf < value < 0 and np.isfinite(row).all()
                way_out = "; logits? Softmax them first: stream_can.softmax(logits), or set logits"
                return (
                    f"entry {i} is {value}, expected a finite number >= 0{way_out * bool(logits)}"
                )
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
        way_out = f"; rounded numbers? {DIVIDE}"
    elif names is None and abs(total - 100) <= min(len(row) / 2, 50):
        way_out = f"; percentages? {DIVIDE}"
    elif total > 0 and row.max() <= 1:
        way_out = f"; {SCORES}" + (f". {SEVERAL}" if total > 1 + 10 * TOLERANCE else "")
    return f"probabilities sum to {text}, expected 1 (within {TOLERANCE:g}){way_out}"


def wrong_shape(shape: tuple[int, ...], ndim: int, m: int) -> str:
    """Describe what is wrong with the shape of one row of m classes (ndim 1), or of many (2)."""
    expected = f"({m},)" if ndim == 1 else f"(n, {m})"
    way_out = "one column per class"
    if not shape and m == 2:
        way_out = "of two classes the probability p of the second is the row [1 - p, p]"
    elif ndim == 1 and shape == (1, m):
        way_out = "a list of one row; give the row itself"
    elif ndim == 2 and len(shape) == 1 and m == 2 and shape != (2,):
        way_out = "of scores of the second class, rows are np.column_stack([1 - p, p])"
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
    units = np.floor(scaled + 1e-3)
    missing = np.rint(10.0**digits - units.sum(axis=1)).astype(int)
    rank = np.argsort(np.argsort(units - scaled, axis=1, kind="stable"), axis=1)
    return np.asarray((units + (rank < missing[:, None])) / 10.0**digits)
