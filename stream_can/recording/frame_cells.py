"""Columns of polars as numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError

try:
    import polars as pl
except ImportError:
    raise StreamCANError(
        "csv, parquet and feather are read by polars: pip install 'stream_can[report]'"
    ) from None


def numbers_of(column: pl.Series, *, commas: bool) -> pl.Series:
    """A column as numbers, null where one is none; texts may be in percent, with decimal commas."""
    if column.dtype != pl.String:
        return column.cast(pl.Float64, strict=False)
    text = column.str.strip_chars()
    if commas:
        text = text.str.replace(",", ".", literal=True)
    numbers = text.str.strip_suffix("%").str.strip_chars().cast(pl.Float64, strict=False)
    return numbers / (1 + 99 * text.str.ends_with("%").cast(pl.Float64))


def with_point(cell: Any) -> Any:
    """A cell of the first rows; a percentage with a decimal point in place of a comma."""
    if isinstance(cell, str) and re.fullmatch(r"\s*\d*,\d+\s*%\s*", cell):
        return cell.replace(",", ".")
    return cell


def cells_of(column: pl.Series) -> NDArray[np.float64] | list[Any]:
    """Lists of equal length as a matrix, other cells unchanged."""
    if isinstance(column.dtype, pl.Array) and not column.has_nulls():
        return np.ascontiguousarray(column.to_numpy(), np.float64)
    if (
        isinstance(column.dtype, pl.List)
        and column.dtype.inner.is_numeric()
        and not column.has_nulls()
    ):
        lengths = column.list.len()
        if lengths.min() == lengths.max():
            return column.explode().cast(pl.Float64).to_numpy().reshape(len(column), -1)
    return column.to_list()


def number_or_text(cell: Any) -> Any:
    """Parse a CSV cell as a number where it is one."""
    try:
        return float(cell) if isinstance(cell, str) else cell
    except ValueError:
        return cell
