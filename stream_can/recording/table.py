"""Table: the interface of file formats, read in batches.

It tells the columns, the first row and the number of rows, and reads batches of some columns. Where
the format allows, memory does not grow with the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError

HEAD = 500
"""Number of rows by which it is judged what the columns hold."""

DATES = "dates"
"""Value of :attr:`Times.unit` where times are microseconds since 1970, not plain numbers."""


class InvalidRecording(StreamCANError, ValueError):
    """A file cannot be replayed; the message names the file, if possible the row, and the
    reason."""


class Names(NamedTuple):
    """Names of the columns, as given by the user."""

    probs: str
    label: str
    id: str


class Times(NamedTuple):
    """A column of times: int64 or float64 of shape (n,), which are missing, and their unit."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    unit: str


class Batch(NamedTuple):
    """Consecutive rows of a table."""

    probs: NDArray[np.float64] | list[Any]
    """Shape (n, m), nan for an empty entry; or n cells in any form."""
    labels: list[Any]
    """n names, None where missing."""
    times: list[Times]
    segments: list[list[Any]]
    """Cells of each of these columns, n Python values."""
    later_labels: Sequence[tuple[int, Any, int]] = ()
    """Further labels of these rows, in order, where labels are on lines of their own: row number,
    label, and number of rows before its line."""


class LabelLines(NamedTuple):
    """Labels on lines of their own."""

    n: int = 0
    """Number of such lines."""
    unjoined: int = 0
    """Number of those that name no row before them."""
    first_unjoined: str = ""
    """The first of these, for messages."""
    first_id: str = ""
    """The first id of a row."""


class Table(Protocol):
    """A file as a table."""

    columns: list[str]
    rows: int
    head: list[dict[str, Any]]
    """Cells of the first rows, as Python values."""
    first: dict[str, Any]
    """Those of the first row."""
    labels_apart: bool
    """Whether labels are on lines of their own; batches then have the times of both."""
    label_lines: LabelLines

    def cell(self, name: str) -> Any:
        """Cell of the first row in a column or nested field (``model.probs``); None where there is
        no such column."""

    def extra(self, name: str) -> NDArray[Any] | None:
        """An array stored beside the rows, such as `classes`; only in npz."""

    def batches(
        self, probs: list[str], label: str, times: list[str], size: int, segments: list[str]
    ) -> Iterator[Batch]:
        """Iterate over the rows in order, up to `size` at a time.

        `probs` are the columns of one class each, or the single column of cells.
        """
