"""RecordedFile: the file of a recording of any kind of rows, whose labels may come later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stream_can.recording.source import open_source
from stream_can.recording.table import LabelLines, Table
from stream_can.recording.times import RowTimes


class RecordedFile:
    """The part of a recording that opens its file and says how labels arrive."""

    labels_are_positions = False
    """Whether labels so far were integers beside classes with names."""
    columns_name_classes = False
    """Whether each class has a column of its own, which names it."""
    _label: str
    _table: Table

    def __init__(self, path: str | Path, time: str | None, label_time: str | None) -> None:
        self.path = Path(path)
        self._source = open_source(path)
        self.name = self._source.name
        """Name of the file, for messages."""
        self.size = self._source.path.stat().st_size
        """Size in bytes, decompressed."""
        self.times = RowTimes(self.name, time, label_time)
        """Those of the rows read so far."""
        self.changed_labels, self.first_changed = 0, ""
        """Number of labels that contradict an earlier one of their row, which counts, among the
        rows read so far; and the first of them, for messages."""

    def _begin(self) -> None:
        """Begin to read the rows."""
        self.times.begin()
        self.changed_labels, self.first_changed = 0, ""

    def _add_changed(self, number: int, counts: Any, label: Any) -> None:
        """Count a label of a row that contradicts the one that counts."""
        self.changed_labels += 1
        if self.changed_labels == 1:
            self.first_changed = f"row {number + 1}: {label!r} after {counts!r}"

    @property
    def read_as(self) -> str:
        """Which columns were taken for what; empty where there is no choice."""
        return ""

    @property
    def label(self) -> str:
        """The column of the labels."""
        return self._label

    @property
    def dates(self) -> bool:
        """Whether times are dates (microseconds since 1970); known after the first chunk."""
        return self.times.dates

    @property
    def has_times(self) -> bool:
        """Whether labels have their own times, or lines of their own."""
        return bool(self.times.names) or self.labels_apart

    @property
    def labels_apart(self) -> bool:
        """Whether labels are on lines of their own."""
        return self._table.labels_apart

    @property
    def label_lines(self) -> LabelLines:
        """These lines, and how many of them name a row."""
        return self._table.label_lines
