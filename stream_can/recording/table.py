"""A table on disk, batch by batch in bounded memory: csv, JSON lines, parquet or npz.

Every format answers the same four questions: which columns are there, what the cells of one hold,
how many rows there are, and the next batch of some columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError

__all__ = ["DATES", "Batch", "InvalidRecording", "Table", "Times", "matrix", "times_of"]

DATES = "dates"
"""What :attr:`Times.unit` says where times are microseconds since 1970, not plain numbers."""


class InvalidRecording(StreamCANError, ValueError):
    """A file cannot be replayed; the message names the file, where possible the row, and why."""


class Times(NamedTuple):
    """A column of times: int64 or float64 of shape (n,), where one is missing, and in what unit."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    unit: str


class Batch(NamedTuple):
    """Some rows of a table."""

    probs: NDArray[np.float64]
    """Shape (n, m); nan where a cell is empty."""
    labels: list[Any]
    """n names, None where there is none."""
    times: list[Times]


class Table(Protocol):
    """A file as a table."""

    columns: list[str]
    rows: int

    def cells(self, name: str) -> int | list[str] | None:
        """What a cell of the first row holds: m for a list, names for an object, None otherwise."""

    def extra(self, name: str) -> NDArray[Any] | None:
        """An array that is kept beside the rows, such as `classes`; only npz has any."""

    def batches(
        self, probs: list[str], keys: list[str] | None, label: str, times: list[str], size: int
    ) -> Iterator[Batch]:
        """The rows in order, up to `size` at a time.

        `probs` are the columns of one class each, or the one column of lists, or of objects whose
        `keys` are given.
        """


def matrix(path: Path, cells: list[Any], first: int) -> NDArray[np.float64]:
    """Lists of numbers to an (n, m) array; an entry that is None becomes nan."""
    try:
        array = np.array(cells, np.float64)
        if array.ndim == 2:
            return array
    except (ValueError, TypeError):
        pass
    m = next((len(cell) for cell in cells if isinstance(cell, list)), 0)
    for i, cell in enumerate(cells):
        if not isinstance(cell, list):
            raise InvalidRecording(
                f"{path}: row {first + i + 1}: expected a list of numbers, got {cell!r}"
            )
        if len(cell) != m:
            raise InvalidRecording(
                f"{path}: row {first + i + 1}: {len(cell)} probabilities, expected {m}: "
                "a class is missing"
            )
        for entry in cell:
            if entry is not None and not isinstance(entry, int | float):
                raise InvalidRecording(f"{path}: row {first + i + 1}: {entry!r} is not a number")
    raise InvalidRecording(f"{path}: rows {first + 1} on: not lists of numbers")


def times_of(path: Path, name: str, values: list[Any], first: int) -> Times:
    """Numbers, or dates as ISO 8601 text; None is missing."""
    missing = np.array([value is None for value in values], np.bool_)
    unit = ""
    numbers: list[float] = []
    for i, value in enumerate(values):
        try:
            if isinstance(value, str):
                date = datetime.fromisoformat(value)
                utc = (date.replace(tzinfo=None) - (date.utcoffset() or date - date)) - datetime(
                    1970, 1, 1
                )
                numbers.append((utc.days * 86400 + utc.seconds) * 1_000_000 + utc.microseconds)
                unit = DATES
            elif value is None:
                numbers.append(0)
            else:
                numbers.append(value + 0)
        except (ValueError, TypeError):
            raise InvalidRecording(
                f"{path}: row {first + i + 1}: {name} is {value!r}, "
                "expected a number or an ISO 8601 date"
            ) from None
    return Times(np.array(numbers), missing, unit)
