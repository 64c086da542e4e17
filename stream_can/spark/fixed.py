"""Correct a DataFrame with a fixed state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.ml.functions import array_to_vector
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, FloatType, StringType, StructType

from stream_can import snapshot
from stream_can.row_kinds import AnyCorrector, kind_of_snapshot, part, refuse_others
from stream_can.spark.columns import (
    arrays,
    check_columns,
    check_segments,
    map_in_arrow,
    quoted,
    refuse,
    segments_of,
)

Errors = Literal["fail", "null"]


@runtime_checkable
class OfApplication(Protocol):
    """The state of an application; without models it has one corrector."""

    def corrector(self) -> Any:
        """Return the corrector."""


class FixedRows(Protocol):
    """How rows of a kind stand in a DataFrame, and what a corrector makes of them.

    It is the ``ROWS`` of a kind's module ``spark``, called with the corrector.
    """

    segments: Sequence[str]
    """Columns that are read besides the rows."""
    has_sets: bool
    """Whether each row gets a set."""

    def type_of(self, name: str, column: DataType) -> DataType:
        """Type of the corrected column, vectors aside; TypeError where rows are none in such a
        column."""

    def read(self, column: pa.Array) -> tuple[Any, dict[int, str]]:
        """The rows of a column, and {row: reason} for bad ones."""

    def corrected(
        self, rows: Any, bad: Mapping[int, str], segments: Any, receipt: bool
    ) -> tuple[pa.Array, pa.Array | None, pa.Array | None]:
        """Corrected rows, receipts and sets, null for bad rows."""


def correct(
    df: DataFrame,
    state: AnyCorrector | OfApplication | bytes | str | os.PathLike[str],
    *,
    probs: str = "probability",
    into: str = "corrected",
    receipt: str | None = None,
    set_into: str = "set",
    key: str | None = None,
    errors: Errors = "fail",
) -> DataFrame:
    """Correct each row of a DataFrame, batch or streaming, with a fixed state.

    Each row is corrected by ``correct_one`` of the state's corrector, such as
    :meth:`Corrector.correct_one <stream_can.Corrector.correct_one>`, bit for bit, however the rows
    are partitioned. Nothing is learned. Segments of the state are read from the DataFrame's columns
    of the same names.

    Parameters
    ----------
    df
        Any DataFrame; its columns are kept.
    state
        A corrector of any kind of rows, its ``to_bytes``, or the path of a file with that; or the
        newest state of an application, from :class:`stream_can.kafka.States`. It is read once,
        here, and sent to each executor once.
    probs
        Column of rows. Probabilities in the order of the classes, or scores in that of several
        labels: arrays of numbers, or vectors of Spark ML, dense or sparse. Of sparse rows:
        maps of those that a row lists to their probabilities.
    into
        Name of the new column: vectors if ``probs`` has vectors, arrays of double if it has arrays,
        maps to double if it has maps. A map may have more classes than came; what is missing from 1
        belongs to the others.
    receipt
        Name of a second new column, if labels return to :class:`Learning`, which rows of one label
        alone can: receipts as of
        :meth:`Corrector.process_one <stream_can.Corrector.process_one>`, arrays of 7 m + 1 floats,
        with segments 9 m + 1, after ``fit`` 2 m less.
    set_into
        Name of a new column if the state makes prediction sets: arrays of class names, the
        likeliest first.
    key
        Column by which errors name a row.
    errors
        For a row that the corrector does not take: "fail", or "null" for null in its place.

    Returns
    -------
    ``df`` followed by the new columns.

    Raises
    ------
    ValueError, TypeError
        A column is missing, has another type, or exists already.
    SnapshotMismatch
        ``state`` is not the state of a corrector.
    InvalidPrediction
        Within Spark's own error, when the DataFrame is computed.
    """
    if errors not in ("fail", "null"):
        raise ValueError(f"errors: {errors!r}, expected 'fail' or 'null'")
    corrector: Any = state.corrector() if isinstance(state, OfApplication) else state
    if hasattr(corrector, "row_kind"):
        data = corrector.to_bytes()
    else:
        data = corrector if isinstance(corrector, bytes) else snapshot.read(corrector)
    kind = kind_of_snapshot(data)
    refuse_others(kind, "spark", {"receipt": receipt is not None})
    rows_of = part(kind.name, "spark").ROWS
    fixed_rows: FixedRows = rows_of(kind.copied(data))  # errors are raised here
    sets = fixed_rows.has_sets
    check_columns(df, probs, key, new=(into, receipt, set_into if sets else None))
    column_type = df.schema[probs].dataType
    better_type = fixed_rows.type_of(probs, column_type)
    names, vectors = df.columns, isinstance(column_type, VectorUDT)
    check_segments(df, fixed_rows.segments)
    source = into if vectors else probs
    if vectors:
        df = df.withColumn(into, arrays(df, probs))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Correct a partition, on an executor."""
        fixed_rows: FixedRows = rows_of(kind.copied(data))
        for batch in batches:
            rows, bad = fixed_rows.read(batch.column(source))
            if errors == "fail":
                refuse(bad, probs, None if key is None else batch.column(key), key)
            columns = {name: batch.column(name) for name in names}
            segments = segments_of([columns[s] for s in fixed_rows.segments], fixed_rows.segments)
            better, receipts, set_column = fixed_rows.corrected(
                rows, bad, segments, receipt is not None
            )
            columns[into] = better
            if receipt is not None:
                columns[receipt] = receipts
            if sets:
                columns[set_into] = set_column
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    schema = StructType(df.schema.fields[: len(names)])
    schema.add(into, better_type)
    if receipt is not None:
        schema.add(receipt, ArrayType(FloatType(), containsNull=False))
    if sets:
        schema.add(set_into, ArrayType(StringType(), containsNull=False))
    corrected = map_in_arrow(df, run, schema)
    if vectors:
        as_vector = F.when(quoted(into).isNotNull(), array_to_vector(quoted(into)))
        corrected = corrected.withColumn(into, as_vector)
    return corrected
