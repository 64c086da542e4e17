"""Times of a recording: in order, of one unit, labels behind their predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.recording.table import DATES, InvalidRecording, Times

Bools = NDArray[np.bool_]


class RowTimes:
    """Checks the columns of times, chunk by chunk.

    Parameters
    ----------
    source
        Name of the file.
    time, label_time
        Columns of the times of predictions and of labels; None where there are none.
    """

    def __init__(self, source: str, time: str | None, label_time: str | None) -> None:
        if (time is None) != (label_time is None):
            raise ValueError(
                "time and label_time: name both columns or neither (--time and --label-time)"
            )
        self.source = source
        self.names = [name for name in (time, label_time) if name is not None]
        self.dates = False
        """Whether times are dates (microseconds since 1970); known after the first chunk."""
        self.begin()

    def begin(self) -> None:
        """Start again with the first row."""
        self._last: Any = None
        self.labels = self.early = 0
        """Number of labels with a time, and of those that were known before their prediction."""
        self.first_early = self.first_label = ""
        """The first of these, and the first label with a time, in words."""

    def take(
        self, times: Sequence[Times], first: int, arrives: Bools
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, Bools]:
        """Check the times of consecutive rows from ``first`` on.

        Returns
        -------
        Times of predictions and of labels, and which of the labels that exist arrive.

        Raises
        ------
        InvalidRecording
            A row has no time or an earlier one than the row before; or one column holds dates and
            the other numbers.
        """
        if not times:
            return None, None, arrives
        time, label_time = times
        self._require_order(time, label_time, first)
        self.dates = time.unit == DATES
        arrives = arrives & ~label_time.missing
        early = arrives & (label_time.values < time.values)
        if early.any() and not self.early:
            self.first_early = self._in_words(time, label_time, first, int(early.argmax()))
        if arrives.any() and not self.labels:
            self.first_label = self._in_words(time, label_time, first, int(arrives.argmax()))
        self.labels += int(arrives.sum())
        self.early += int(early.sum())
        self._last = time.values[-1]
        return time.values, label_time.values, arrives

    def _require_order(self, time: Times, label_time: Times, first: int) -> None:
        source, names, last = self.source, self.names, self._last
        if time.missing.any():
            row = first + int(time.missing.argmax()) + 1
            raise InvalidRecording(f"{source}: row {row}: {names[0]} is missing")
        if time.unit != label_time.unit and not label_time.missing.all():
            kinds = [part.unit or "numbers" for part in (time, label_time)]
            raise InvalidRecording(
                f"{source}: {names[0]} holds {kinds[0]}, {names[1]} holds {kinds[1]}"
            )
        values = time.values if last is None else np.append(last, time.values)
        back = values[1:] < values[:-1]
        if back.any():
            row = first + int(back.argmax()) + (1 if last is not None else 2)
            raise InvalidRecording(
                f"{source}: row {row}: {names[0]} is earlier than in the row before; "
                "sort the rows by it"
            )

    def _in_words(self, time: Times, label_time: Times, first: int, i: int) -> str:
        """Both times of a row; empty where they are numbers of lines."""
        if not self.names:
            return ""
        values = [self._shown(times.values[i]) for times in (label_time, time)]
        return f"row {first + i + 1}: {self.names[1]} {values[0]}, {self.names[0]} {values[1]}"

    def _shown(self, value: Any) -> str:
        if self.dates:
            return str(np.datetime64(int(value), "us"))
        return f"{value:.15g}" if isinstance(value, np.floating) else str(value)
