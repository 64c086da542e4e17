"""A recording in memory, with validation rows for the rivals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.recording.recording import CHUNK, Chunk, Recording
from stream_can.recording.table import InvalidRecording
from stream_can.replay.steps import check_arrival

RECENT = 5000
"""Number of latest labels of a refit, beside the validation rows."""

Array = NDArray[np.float64]


class Stream(NamedTuple):
    """Rows in stream order, their labels, and validation rows from before the stream."""

    classes: list[Any]
    """Names of the m classes."""
    P: Array
    """Probabilities, shape (n, m)."""
    y: NDArray[np.int64]
    """Index of each row's class, shape (n,), -1 without a label."""
    arrives: NDArray[np.bool_]
    """Whether the label ever arrives."""
    scored: NDArray[np.bool_]
    """Which rows are scored; each has a label."""
    validation: tuple[Array, NDArray[np.int64]]
    """Rows and indices of their classes."""
    train_counts: NDArray[Any] | None = None
    """Training rows per class, if known."""
    label_delay: int | None = None
    """Number of rows by which labels are late; None if they have their own times."""
    time: NDArray[Any] | None = None
    label_time: NDArray[Any] | None = None

    def chunks(self) -> Iterator[Chunk]:
        """The rows for :func:`stream_can.replay.steps`."""
        for first in range(0, len(self.P), CHUNK):
            cut = slice(first, first + CHUNK)
            time, label_time = (None if t is None else t[cut] for t in (self.time, self.label_time))
            yield Chunk(first, self.P[cut], self.y[cut], self.arrives[cut], time, label_time, None)

    @property
    def due(self) -> NDArray[np.int64]:
        """Row before which each label is known, shape (n,)."""
        next_row = np.arange(1, len(self.P) + 1)
        if self.label_delay is not None or self.time is None or self.label_time is None:
            return next_row + (self.label_delay or 0)
        return np.maximum(next_row, np.searchsorted(self.time, self.label_time, "left"))

    @property
    def arrivals(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Rows whose labels arrive, in order of arrival, and :attr:`due` of each."""
        labelled_rows = np.flatnonzero(self.arrives)
        due = self.due[labelled_rows]
        order = np.argsort(due, kind="stable")
        return labelled_rows[order], due[order]


def known_before(
    row: int, stream: Stream, arrivals: tuple[NDArray[np.intp], NDArray[np.int64]]
) -> tuple[Array, NDArray[np.int64]]:
    """The validation rows and the latest rows whose labels have arrived before a row, with their
    labels; ``arrivals`` are those of the stream."""
    labelled_rows, due = arrivals
    recent = labelled_rows[: np.searchsorted(due, row, "right")][-RECENT:]
    P, y = stream.validation
    return np.concatenate([P, stream.P[recent]]), np.concatenate([y, stream.y[recent]])


def load(
    recording: Recording,
    *,
    label_delay: int | None = None,
    validation: Recording | None = None,
) -> Stream:
    """Read a recording, and validation rows from another one.

    Parameters
    ----------
    recording
        Predictions and labels.
    label_delay
        Number of rows by which labels are late; None only where the recording has times.
    validation
        A recording of validation rows; rows without a label are ignored.

    Raises
    ------
    InvalidRecording
        There are no labels, or these have weights, or the classes differ.
    ValueError
        The arrival of labels is unknown.
    """
    check_arrival(recording, label_delay)
    if recording.weight is not None:
        raise InvalidRecording(
            f"{recording.name}: labels have weights in {recording.weight!r}, and rivals count each"
            " label once; open the recording without"
        )
    P, y, arrives, time, label_time = _read(recording)
    rows, labels = P[:0], y[:0]
    if validation is not None:
        if list(map(str, validation.classes)) != list(map(str, recording.classes)):
            raise InvalidRecording(
                f"{validation.path}: classes {validation.classes[:8]}, but {recording.path} has "
                f"{recording.classes[:8]}: both need the same ones in the same order"
            )
        rows, labels, *_ = _read(validation)
        rows, labels = rows[labels >= 0], labels[labels >= 0]
        if not len(labels):
            raise InvalidRecording(f"{validation.path}: no row has a label")
    if not (y >= 0).any():
        raise InvalidRecording(f"{recording.path}: no row has a label, so nothing can be compared")
    return Stream(
        recording.classes,
        P,
        y,
        arrives,
        y >= 0,
        (rows, labels),
        recording.train_counts,
        label_delay,
        time,
        label_time,
    )


def _read(recording: Recording) -> tuple[Any, ...]:
    """Read all rows: P, y, arrives, time, label_time."""
    rows = (
        (chunk.P, chunk.y, chunk.arrives, chunk.time, chunk.label_time)
        for chunk in recording.chunks()
    )
    parts = zip(*rows, strict=True)
    return tuple(None if part[0] is None else np.concatenate(part) for part in parts)
