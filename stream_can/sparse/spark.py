"""Sparse rows in a DataFrame: maps of the classes listed to their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType, DoubleType, IntegralType, MapType, NumericType, StringType

from stream_can.errors import InvalidPrediction
from stream_can.sparse.corrector import SparseCorrector


class SparseColumn:
    """The `FixedRows` of a `SparseCorrector`."""

    segments: Sequence[str] = ()
    has_sets = False

    def __init__(self, corrector: SparseCorrector) -> None:
        self._corrector = corrector

    def type_of(self, name: str, column: DataType) -> DataType:
        """Maps to double, for maps by name, or by number where classes are numbers."""
        numbered = self._corrector.names is None
        keys = IntegralType if numbered else StringType
        right = isinstance(column, MapType) and isinstance(column.keyType, keys)
        if not right or not isinstance(column.valueType, NumericType):
            by = "classes, which are whole numbers" if numbered else "names of classes"
            raise TypeError(
                f"column {name} is {column.simpleString()}, expected maps of {by} to numbers"
            )
        return MapType(column.keyType, DoubleType(), valueContainsNull=False)

    def read(self, column: pa.Array) -> tuple[tuple[pa.DataType, list[Any]], dict[int, str]]:
        """Type of the keys, and rows corrected already, None where they are bad.

        Maps have no order in Spark, and the last bits depend on it: the likeliest class comes
        first, of equal ones the first by name.
        """
        rows, bad = list[Any](), dict[int, str]()
        for i, pairs in enumerate(column.to_pylist()):
            rows.append(None)
            if pairs is None or any(p is None for _, p in pairs):
                bad[i] = "null" if pairs is None else "a probability is null"
                continue
            row = dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
            try:
                better: Any = self._corrector.correct_one(row)
            except InvalidPrediction as error:
                bad[i] = str(error)
                continue
            rows[i] = list(better.probabilities.items())
        return (column.type.key_type, rows), bad

    def corrected(
        self, rows: Any, bad: Mapping[int, str], segments: Any, receipt: bool
    ) -> tuple[pa.Array, None, None]:
        """Corrected rows, null for bad ones."""
        key_type, better = rows
        value = pa.field("value", pa.float64(), nullable=False)
        return pa.array(better, pa.map_(key_type, value)), None, None


ROWS = SparseColumn
