"""Recordings of rows that list the likeliest of thousands of classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.messages.sparse_formats import ListedForms
from stream_can.method.classes import is_missing
from stream_can.recording.cells import probs_of
from stream_can.recording.column_hints import no_column
from stream_can.recording.formats import open_table
from stream_can.recording.layout import in_other_case, may_hold
from stream_can.recording.recorded_file import RecordedFile
from stream_can.recording.recording import CHUNK
from stream_can.recording.table import InvalidRecording, Names


class SparseChunk(NamedTuple):
    """Consecutive rows of a recording."""

    first: int
    """Number of the first row, from 0."""
    rows: list[dict[Any, float]]
    """Likeliest classes of each row, with their probabilities."""
    labels: list[Any]
    """Class of each row, None without a label."""
    arrives: NDArray[np.bool_]
    """Whether the label ever arrives."""
    time: NDArray[Any] | None
    """Time of each prediction, where the recording has times."""
    label_time: NDArray[Any] | None
    """Time at which each label is known."""


class SparseRecording(RecordedFile):
    """Predictions that list the likeliest of thousands of classes, in order, with labels.

    Parameters
    ----------
    path
        A file, as for :class:`Recording`.
    probs
        The column or field of the rows: objects {class: probability}, or lists of {"label",
        "score"}; also as text.
    label
        Column of the labels; a row need not list its label's class.
    time, label_time, id
        As for :class:`Recording`.
    numbered
        Whether classes are numbers rather than names.

    Raises
    ------
    InvalidRecording
        The file, a column or a row is not what it should be; the message names it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        probs: str = "probs",
        label: str = "label",
        time: str | None = None,
        label_time: str | None = None,
        id: str = "id",
        numbered: bool = False,
    ) -> None:
        super().__init__(path, time, label_time)
        self._table = table = open_table(self._source, Names(probs, label, id))
        label = in_other_case(table, label)
        self.probs, self._label = probs, label
        named = [("probs", probs), ("label", label), ("time", time), ("label_time", label_time)]
        for purpose, name in named:
            apart = purpose == "label" and table.labels_apart
            if name is not None and not apart and not may_hold(table, name):
                raise no_column(self.name, table, purpose, name)
        self.rows = table.rows
        self._forms = ListedForms(numbered=numbered)
        self._listed = set[str]()
        """Classes of the rows so far whose names would otherwise mean a missing label."""

    def chunks(self, size: int = CHUNK) -> Iterator[SparseChunk]:
        """Iterate over the rows in order, at most ``size`` at a time."""
        first = 0
        self._begin()
        for cells, labels, times, _, later_labels in self._table.batches(
            [self.probs], self._label, self.times.names, size, []
        ):
            rows = [self._row(cell, first + i) for i, cell in enumerate(cells)]
            names = [self._class(label, first + i) for i, label in enumerate(labels)]
            for number, label, _ in later_labels:
                if self._class(label, number) not in (names[number - first], None):
                    self._add_changed(number, names[number - first], label)
            arrives = np.array([name is not None for name in names], np.bool_)
            time, label_time, arrives = self.times.take(times, first, arrives)
            yield SparseChunk(first, rows, names, arrives, time, label_time)
            first += len(rows)

    def _row(self, cell: Any, number: int) -> dict[Any, float]:
        try:
            row = self._forms.parse(probs_of(cell))[0]
            self._listed.update(name for name in row if isinstance(name, str) and is_missing(name))
            return row
        except StreamCANError as error:
            raise InvalidRecording(f"{self.name}: row {number + 1}: {error}") from None

    def _class(self, label: Any, number: int) -> Any:
        if label is None or label != label:
            return None
        if isinstance(label, str):
            label = label.strip()
            if is_missing(label) and label not in self._listed:
                return None
        where = f"{self.name}: row {number + 1}: label"
        if not isinstance(label, str | int | float):
            raise InvalidRecording(f"{where}: {label!r}, expected the name of a class")
        try:
            is_integer = isinstance(label, float) and label.is_integer()  # as tables store integers
            return self._forms.name_of(int(label) if is_integer else label)
        except StreamCANError as error:
            raise InvalidRecording(f"{where}: {error}") from None
