"""Multilabel rows in a DataFrame: arrays or vectors of scores, in the labels' order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import ArrayType, DataType, DoubleType

from stream_can.multilabel.corrector import MultiLabelCorrector
from stream_can.spark.columns import lists, numbers, require_numbers


class MultiLabelColumn:
    """The `FixedRows` of a `MultiLabelCorrector`."""

    segments: Sequence[str] = ()
    has_sets = False

    def __init__(self, corrector: MultiLabelCorrector) -> None:
        self._corrector = corrector

    def type_of(self, name: str, column: DataType) -> DataType:
        """Arrays of double, for arrays of numbers and vectors."""
        require_numbers(name, column)
        return ArrayType(DoubleType(), containsNull=False)

    def read(self, column: pa.Array) -> tuple[NDArray[np.float64], dict[int, str]]:
        """The rows, 0.5 where they are bad."""
        P, bad = numbers(column, self._corrector.m, 0.5, of="labels")
        wrong = ~((P >= 0) & (P <= 1))
        for i in np.flatnonzero(wrong.any(axis=1)).tolist():
            k = int(wrong[i].argmax())
            bad[i], P[i] = self._corrector._why(P[i, k], k), 0.5
        return P, bad

    def corrected(
        self, rows: NDArray[np.float64], bad: Mapping[int, str], segments: Any, receipt: bool
    ) -> tuple[pa.Array, None, None]:
        """Corrected rows, null for bad ones."""
        better: Any = self._corrector.correct_many(rows)
        return lists(better, bad), None, None


ROWS = MultiLabelColumn
