"""Correct a DataFrame with a fixed state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, FloatType, StringType, StructType

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.method.classes import json_name
from stream_can.row_sums import RowSums
from stream_can.spark.columns import (
    arrays,
    check_columns,
    check_segments,
    is_vector,
    map_in_arrow,
    matrix,
    quoted,
    refuse,
    segments_of,
)

__all__ = ["Errors", "correct"]

Errors = Literal["fail", "null"]
NAMES = pa.list_(pa.field("element", pa.string(), nullable=False))
"""Arrow's type of a column of sets."""


@runtime_checkable
class OfApplication(Protocol):
    """The state of an application; without models it has one corrector."""

    def corrector(self) -> Any:
        """Return the corrector."""


def one_label(state: OfApplication) -> Corrector:
    """The corrector of an application's state; ValueError for rows of several labels."""
    found = state.corrector()
    if not isinstance(found, Corrector):
        raise ValueError("state: its rows have several labels; Spark corrects rows of one")
    return found


def correct(
    df: DataFrame,
    state: Corrector | OfApplication | bytes | str | os.PathLike[str],
    *,
    probs: str = "probability",
    into: str = "corrected",
    receipt: str | None = None,
    set_into: str = "set",
    key: str | None = None,
    errors: Errors = "fail",
) -> DataFrame:
    """Correct each row of a DataFrame, batch or streaming, with a fixed state.

    Each row is corrected by :meth:`Corrector.correct_one <stream_can.Corrector.correct_one>`, bit
    for bit, however the rows are partitioned. Nothing is learned. Segments of the state are read
    from the DataFrame's columns of the same names.

    Parameters
    ----------
    df
        Any DataFrame; its columns are kept.
    state
        A corrector, its ``to_bytes``, or the path of a file with that; or the newest state of an
        application, from :class:`stream_can.kafka.States`. It is read once, here, and sent to each
        executor once.
    probs
        Column of probabilities in class order: arrays of numbers, or vectors of Spark ML, dense or
        sparse.
    into
        Name of the new column: vectors if ``probs`` has vectors, else arrays of double.
    receipt
        Name of a second new column, if labels return to :class:`Learning`: receipts as of
        :meth:`Corrector.process_one <stream_can.Corrector.process_one>`, arrays of 7 m + 1 floats,
        with segments 9 m + 1, after ``fit`` 2 m less.
    set_into
        Name of a new column if the state makes prediction sets: arrays of class names, the
        likeliest first.
    key
        Column by which errors name a row.
    errors
        For a row that is no probability vector: "fail", or "null" for null in its place.

    Returns
    -------
    ``df`` followed by the new columns.

    Raises
    ------
    ValueError, TypeError
        A column is missing, has another type, or exists already.
    SnapshotMismatch
        ``state`` is not the state of a Corrector.
    InvalidPrediction
        Within Spark's own error, when the DataFrame is computed.
    """
    if errors not in ("fail", "null"):
        raise ValueError(f"errors: {errors!r}, expected 'fail' or 'null'")
    if isinstance(state, OfApplication):
        state = one_label(state)
    if isinstance(state, Corrector):
        data = state.to_bytes()
    else:
        data = state if isinstance(state, bytes) else snapshot.read(state)
        state = Corrector.from_bytes(data)  # errors are raised here
    sets = state.sets is not None
    check_columns(df, probs, key, new=(into, receipt, set_into if sets else None))
    names, vectors = df.columns, is_vector(df, probs)
    check_segments(df, state.segments)
    source = into if vectors else probs
    if vectors:
        df = df.withColumn(into, arrays(df, probs))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Correct a partition, on an executor."""
        corrector = Corrector.from_bytes(data)
        sums = RowSums(corrector).zeros()  # filled along with the receipts, and unused
        for batch in batches:
            P, bad = matrix(batch.column(source), corrector.classes)
            if errors == "fail":
                refuse(bad, probs, None if key is None else batch.column(key), key)
            columns = {name: batch.column(name) for name in names}
            segments = segments_of([columns[s] for s in corrector.segments], corrector.segments)
            if receipt is None and not sets:
                better = corrector.correct_many(P, segments=segments)
                columns[into] = lists(better, bad)
            else:
                better, receipts = RowSums(corrector).correct(
                    P, sums, receipt=True, segments=segments
                )
                columns[into] = lists(better, bad)
                if receipt is not None:
                    columns[receipt] = lists(receipts, bad)
                if sets:
                    columns[set_into] = names_of_sets(corrector, better, receipts, bad)
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    schema = StructType(df.schema.fields[: len(names)])
    schema.add(into, ArrayType(DoubleType(), containsNull=False))
    if receipt is not None:
        schema.add(receipt, ArrayType(FloatType(), containsNull=False))
    if sets:
        schema.add(set_into, ArrayType(StringType(), containsNull=False))
    corrected = map_in_arrow(df, run, schema)
    if vectors:
        as_vector = F.when(quoted(into).isNotNull(), array_to_vector(quoted(into)))
        corrected = corrected.withColumn(into, as_vector)
    return corrected


def names_of_sets(
    corrector: Corrector, rows: NDArray[Any], receipts: NDArray[Any], bad: dict[int, str]
) -> pa.Array:
    """The set of each row, the likeliest class first; null for a bad row."""
    has, names = corrector.sets_of(rows, receipts), [json_name(name) for name in corrector.classes]
    order = np.argsort(-rows.astype(np.float32), axis=1, kind="stable").tolist()
    found = [
        None if i in bad else [names[k] for k in order[i] if has[i, k]] for i in range(len(rows))
    ]
    return pa.array(found, NAMES)


def lists(rows: NDArray[Any], bad: dict[int, str]) -> pa.ListArray:
    """Rows as an Arrow array of lists; null for a bad row."""
    n, m = rows.shape
    mask = None
    if bad:
        null = np.zeros(n, bool)
        null[list(bad)] = True
        mask = pa.array(null)
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * m)
    return pa.ListArray.from_arrays(offsets, pa.array(rows.reshape(-1)), mask=mask)
