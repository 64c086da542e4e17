"""LabelColumns: rows and labels of a `MultiLabelCorrector`, with a column for each label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.method.class_names import preview
from stream_can.method.classes import ClassIndex
from stream_can.method.rows import as_float64, names_of
from stream_can.multilabel.loop import outside

Array = NDArray[np.float64]
Labels = NDArray[np.int8]


class LabelColumns:
    """Checks rows and labels."""

    _labels: tuple[Any, ...]
    _index: ClassIndex

    @property
    def labels(self) -> tuple[Any, ...]:
        """Names of the labels, in column order."""
        return self._labels

    @property
    def m(self) -> int:
        """Number of labels."""
        return len(self._labels)

    def row_of(self, has: Iterable[Any], lacks: Iterable[Any] | None = None) -> Labels:
        """Labels as a row of 1, 0 and -1, int8 of shape (m,).

        Parameters
        ----------
        has
            Labels that the row has.
        lacks
            Labels that it does not have; by default all others. The rest is unknown.

        Raises
        ------
        UnknownClass
            A name is not one of the labels, or in both lists.
        """
        row = np.full(self.m, 0 if lacks is None else -1, np.int8)
        for name in () if lacks is None else lacks:
            row[self._column(name)] = 0
        for name in has:
            k = self._column(name)
            if lacks is not None and row[k] == 0:
                raise UnknownClass(f"label {name!r}: both had and lacked")
            row[k] = 1
        return row

    def _column(self, name: Any) -> int:
        try:
            return self._index[name]
        except (TypeError, UnknownClass):
            raise UnknownClass(
                f"label {name!r} is none of the {self.m} labels: {preview(self._labels)}"
            ) from None

    def _row_of_known(self, known: Mapping[Any, Any]) -> Labels:
        """:meth:`row_of` for {label: whether the row has it}."""
        lacks = [label for label, value in known.items() if not value]
        return self.row_of([label for label, value in known.items() if value], lacks)

    def _rows_of(self, P: ArrayLike) -> Array:
        """Check and copy rows; a copy cannot change while the loop runs."""
        array = as_float64(P, self._index)
        if array.ndim != 2 or array.shape[1] != self.m:
            raise InvalidPrediction(
                f"predictions have shape {array.shape}, expected (n, {self.m}): one column per"
                " label"
            )
        array = np.array(array, order="C")
        if (bad_cell := outside(array)) is not None:
            row, column = bad_cell
            raise InvalidPrediction(f"row {row}: {self._why(array[row, column], column)}")
        return array

    def _row_of(self, p: ArrayLike) -> Array:
        array = as_float64(p, self._index)
        if array.shape != (self.m,):
            raise InvalidPrediction(
                f"prediction has shape {array.shape}, expected ({self.m},): one number per label"
            )
        array = np.array(array[None], order="C")
        if (bad_cell := outside(array)) is not None:
            raise InvalidPrediction(self._why(array[bad_cell], bad_cell[1]))
        return array

    def _why(self, value: float, column: int) -> str:
        return (
            f"the probability of label {self._labels[column]!r} is {value}, expected a number from"
            " 0 to 1"
        )

    def _labels_of(self, Y: ArrayLike) -> Labels:
        array = np.asarray(Y)
        if array.ndim != 2 or array.shape[1] != self.m or array.dtype.kind not in "iubf":
            raise UnknownClass(
                f"labels are {array.dtype} of shape {array.shape}, expected integers of shape"
                f" (n, {self.m}): 1, 0, or -1 where it is not known"
            )
        bad = np.argwhere((array != 1) & (array != 0) & (array != -1))
        if len(bad):
            row, column = bad[0].tolist()
            raise UnknownClass(
                f"row {row}: label {self._labels[column]!r} is {array[row, column]}, expected 1, 0,"
                " or -1 where it is not known"
            )
        return np.array(array, np.int8, order="C")

    def _counts_of(self, counts: ArrayLike | Mapping[Any, float], rows: float) -> Array:
        if (names := names_of(counts)) is not None:
            counts = dict(zip(names, np.asarray(counts).tolist(), strict=True))
        if isinstance(counts, Mapping):
            for name in counts:
                if name not in self._index:
                    raise ValueError(f"train_counts: {name!r} is none of the labels")
            counts = [counts.get(name, 0) for name in self._labels]
        array = np.array(counts, np.float64)
        if array.shape != (self.m,):
            raise ValueError(f"train_counts: shape {array.shape}, expected ({self.m},)")
        bad = np.flatnonzero(~((array >= 0) & (array <= rows)))
        if bad.size:
            raise ValueError(
                f"train_counts: {array[bad[0]]:g} rows with label {self._labels[bad[0]]!r},"
                f" expected 0 to train_rows, {rows:g}"
            )
        return array
