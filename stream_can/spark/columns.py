"""Columns of probabilities in Spark, in Arrow and as a matrix; columns of segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    IntegralType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from stream_can.errors import InvalidPrediction
from stream_can.method.checks import bad_rows

Array = NDArray[np.float64]
NAMES = pa.list_(pa.field("element", pa.string(), nullable=False))
"""Arrow's type of a column of sets."""
KEYS = (StringType, IntegralType, BooleanType, DateType)
TIMES = (StringType, NumericType, DateType, TimestampType, TimestampNTZType)
LABELS = (*TIMES, BooleanType)


def is_vector(df: DataFrame, name: str) -> bool:
    """Whether a column holds Spark ML vectors, dense or sparse, rather than arrays."""
    kind = df.schema[name].dataType
    require_numbers(name, kind)
    return isinstance(kind, VectorUDT)


def require_numbers(name: str, kind: DataType) -> None:
    """Raise TypeError for a type that is neither vectors nor arrays of numbers."""
    array = isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType)
    if not array and not isinstance(kind, VectorUDT):
        raise TypeError(
            f"column {name} is {kind.simpleString()}, expected vectors or arrays of numbers"
        )


def arrays(df: DataFrame, name: str) -> Column:
    """Convert a column of probabilities to arrays."""
    if not is_vector(df, name):
        return quoted(name)
    # Trap: vector_to_array does not accept null.
    return F.when(quoted(name).isNotNull(), vector_to_array(quoted(name)))


def check_columns(df: DataFrame, *names: str | None, new: Sequence[str | None] = ()) -> None:
    """Raise ValueError where a column is missing, or a new one exists already."""
    existing = ", ".join(df.columns)
    for name in names:
        if name is not None and name not in df.columns:
            raise ValueError(f"there is no column {name}; the columns are {existing}")
    for name in new:
        if name in df.columns:
            raise ValueError(f"there is a column {name} already; give the new one another name")


def check_types(df: DataFrame, key: str, order: str, label: str) -> None:
    """Raise TypeError where a column of keys, times or labels has another type."""
    for name, types, described in (
        (key, KEYS, "text, integers, booleans or dates"),
        (order, TIMES, "times, numbers or text"),
        (label, LABELS, "names of classes"),
    ):
        column_type: DataType = df.schema[name].dataType
        if not isinstance(column_type, types):
            raise TypeError(f"column {name} is {column_type.simpleString()}, expected {described}")


def quoted(name: str) -> Column:
    """Refer to a column by name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def map_in_arrow(
    df: DataFrame, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Any
) -> DataFrame:
    """Run a function on Arrow batches, whatever the columns are called.

    Trap: ``df.mapInArrow`` does not take a name with a dot.
    """
    names = df.columns

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)

    return df.toDF(*(f"_{i}" for i in range(len(names)))).mapInArrow(named, schema)


def check_segments(df: DataFrame, names: Sequence[str]) -> None:
    """Raise where a column of segments is missing, or has an unsuitable type."""
    check_columns(df, *names)
    for name in names:
        kind = df.schema[name].dataType
        if not isinstance(kind, StringType | IntegralType | BooleanType):
            raise TypeError(
                f"column {name} is {kind.simpleString()}, expected text, integers or booleans, "
                "as the state has it as segments; cast it to what its values are called"
            )


def segments_of(columns: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]] | None:
    """Column values for a corrector, from Arrow columns; None without columns."""
    return {name: c.to_pylist() for name, c in zip(names, columns, strict=True)} or None


def matrix(column: Any, classes: Sequence[Any]) -> tuple[Array, dict[int, str]]:
    """Convert an Arrow column of lists to a matrix; find rows that are no probability vectors.

    Returns
    -------
    The matrix, shape (n, m), and {row: reason} for bad rows, which are uniform in the matrix.
    """
    P, short = numbers(column, len(classes), 1 / len(classes))
    bad: dict[int, str] = bad_rows(P, classes)
    P[list(bad)] = 1 / len(classes)
    return P, bad | short


def numbers(
    column: Any, m: int, otherwise: float, *, of: str = "classes"
) -> tuple[Array, dict[int, str]]:
    """Convert an Arrow column of lists to a matrix, shape (n, m).

    Returns
    -------
    The matrix, NaN for null, and {row: reason} for lists of another length, whose numbers are
    ``otherwise`` in the matrix.
    """
    n = len(column)
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
    values = column.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)  # null becomes NaN
    right = lengths == m
    if right.all():
        P = np.array(values).reshape(n, m)
    else:
        P = np.full((n, m), otherwise)
        P[right] = values[np.repeat(right, np.maximum(lengths, 0))].reshape(-1, m)
    short = {
        i: "null" if lengths[i] < 0 else f"{lengths[i]} numbers for {m} {of}"
        for i in np.flatnonzero(~right).tolist()
    }
    return P, short


def lists(rows: NDArray[Any], bad: Mapping[int, str]) -> pa.ListArray:
    """Rows as an Arrow array of lists; null for a bad row."""
    n, m = rows.shape
    mask = None
    if bad:
        null = np.zeros(n, bool)
        null[list(bad)] = True
        mask = pa.array(null)
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * m)
    return pa.ListArray.from_arrays(offsets, pa.array(rows.reshape(-1)), mask=mask)


def refuse(bad: dict[int, str], column: str, keys: Any, key: str | None) -> None:
    """Raise InvalidPrediction for the first bad row, named by its key column."""
    if bad:
        i, reason = min(bad.items())
        row = "a row; name its key column with key=" if keys is None else f"{key} = {keys[i]}"
        raise InvalidPrediction(f"column {column}, {row}: {reason}; errors='null' lets it pass")
