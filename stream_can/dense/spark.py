"""Dense rows in a DataFrame: arrays or vectors of probabilities, in the order of the classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import ArrayType, DataType, DoubleType

from stream_can.corrector import Corrector
from stream_can.method.class_names import json_name
from stream_can.row_sums import RowSums
from stream_can.spark.columns import NAMES, lists, matrix, require_numbers


class DenseColumn:
    """The `FixedRows` of a `Corrector`."""

    def __init__(self, corrector: Corrector) -> None:
        self._corrector = corrector
        self.segments, self.has_sets = corrector.segments, corrector.sets is not None
        self._sums = RowSums(corrector).zeros()
        """Filled along with the receipts, and unused."""

    def type_of(self, name: str, column: DataType) -> DataType:
        """Arrays of double, for arrays of numbers and vectors."""
        require_numbers(name, column)
        return ArrayType(DoubleType(), containsNull=False)

    def read(self, column: pa.Array) -> tuple[NDArray[np.float64], dict[int, str]]:
        """The rows, uniform where they are bad."""
        return matrix(column, self._corrector.classes)

    def corrected(
        self, rows: NDArray[np.float64], bad: Mapping[int, str], segments: Any, receipt: bool
    ) -> tuple[pa.Array, pa.Array | None, pa.Array | None]:
        """Corrected rows, receipts and sets, null for bad rows."""
        if not receipt and not self.has_sets:
            better = self._corrector.correct_many(rows, segments=segments)
            return lists(better, bad), None, None
        better, receipts = RowSums(self._corrector).correct(
            rows, self._sums, receipt=True, segments=segments
        )
        sets = names_of_sets(self._corrector, better, receipts, bad) if self.has_sets else None
        return lists(better, bad), lists(receipts, bad), sets


def names_of_sets(
    corrector: Corrector, rows: NDArray[Any], receipts: NDArray[Any], bad: Mapping[int, str]
) -> pa.Array:
    """The set of each row, the likeliest class first; null for a bad row."""
    inside, names = (
        corrector.sets_of(rows, receipts),
        [json_name(name) for name in corrector.classes],
    )
    order = np.argsort(-rows.astype(np.float32), axis=1, kind="stable").tolist()
    names_inside = [
        None if i in bad else [names[k] for k in order[i] if inside[i, k]] for i in range(len(rows))
    ]
    return pa.array(names_inside, NAMES)


ROWS = DenseColumn
