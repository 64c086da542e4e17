"""Arrivals: what a recording of any kind of rows knows of when its labels come."""

from __future__ import annotations

from stream_can.recording.table import LabelLines, Table
from stream_can.recording.times import RowTimes


class LabelArrivals:
    """The part of a recording that says how labels arrive."""

    times: RowTimes  # as far as the rows were read
    labels_are_positions = False
    """Whether labels so far were integers beside classes with names."""
    has_columns = False
    """Whether each class has a column of its own, which names it."""
    _label: str
    _table: Table

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
