"""A table on disk, batch by batch: what every format answers.

Which columns there are, what the first row holds, how many rows there are, and the next batch of
some columns. Memory does not grow with the file where the format allows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError

__all__ = ["DATES", "Batch", "InvalidRecording", "Names", "Table", "Times"]

DATES = "dates"
"""The :attr:`Times.unit` where times are microseconds since 1970, not plain numbers."""


class InvalidRecording(StreamCANError, ValueError):
    """A file cannot be replayed; the message names the file, where possible the row, and why."""


class Names(NamedTuple):
    """Names of the columns, as the user gives them."""

    probs: str
    label: str
    id: str


class Times(NamedTuple):
    """A column of times: int64 or float64 of shape (n,), where one is missing, and in what unit."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    unit: str


class Batch(NamedTuple):
    """Some rows of a table."""

    probs: NDArray[np.float64] | list[Any]
    """Shape (n, m), nan where an entry is empty; or what n cells hold, in whatever form."""
    labels: list[Any]
    """n names, None where there is none."""
    times: list[Times]
    segments: list[list[Any]]
    """Cells of each of these columns, n Python values."""
    more: Sequence[tuple[int, Any, int]] = ()
    """Where labels are lines of their own, further ones of these rows, in their order: the number
    of the row in the file, the label, and how many rows stood before its line."""


class Table(Protocol):
    """A file as a table."""

    columns: list[str]
    rows: int
    first: dict[str, Any]
    """The cells of the first row, as Python values."""
    labels_apart: bool
    """Whether labels came on lines of their own; batches then have the times of both."""

    def cell(self, name: str) -> Any:
        """Cell of the first row in a column, or in a field inside of one (``model.probs``); None
        where there is no such column."""

    def extra(self, name: str) -> NDArray[Any] | None:
        """An array that is kept beside the rows, such as `classes`; only npz has any."""

    def batches(
        self, probs: list[str], label: str, times: list[str], size: int, segments: list[str]
    ) -> Iterator[Batch]:
        """The rows in order, up to `size` at a time.

        `probs` are the columns of one class each, or the one column of cells.
        """
