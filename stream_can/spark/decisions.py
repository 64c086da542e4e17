"""Decide by costs in a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType

from stream_can.method.costs import Costs
from stream_can.spark.columns import arrays, check_columns, map_in_arrow, matrix


def decide(
    df: DataFrame, costs: Costs, *, probs: str = "corrected", into: str = "decision"
) -> DataFrame:
    """Add the cheapest action of each row.

    Parameters
    ----------
    df
        Any DataFrame, batch or streaming; its columns are kept.
    costs
        Costs of the actions, of the classes in the order of the column.
    probs
        Column of probabilities, as :func:`correct` makes it: arrays or vectors.
    into
        Name of the new column, of texts; null where a row is null or no probability vector.

    Returns
    -------
    ``df`` followed by the new column.

    Raises
    ------
    ValueError, TypeError
        A column is missing, has another type, or exists already.
    """
    check_columns(df, probs, new=(into,))
    with_arrays = df.withColumn(into, arrays(df, probs))
    names = df.columns

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decide for a partition, on an executor."""
        for batch in batches:
            rows, bad = matrix(batch.column(into), costs.classes)
            actions = [None if i in bad else action for i, action in enumerate(costs.named(rows))]
            columns = [batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays(
                [*columns, pa.array(actions, pa.string())], names=[*names, into]
            )

    schema = StructType(df.schema.fields[:]).add(into, StringType())
    return map_in_arrow(with_arrays, run, schema)
