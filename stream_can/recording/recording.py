"""Recorded predictions and labels, chunk by chunk, with every row checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.method.classes import ClassIndex, class_names
from stream_can.method.kernel import bad_rows
from stream_can.recording.formats import open_table
from stream_can.recording.table import DATES, InvalidRecording, Table, Times

__all__ = ["Chunk", "InvalidRecording", "Recording"]

CHUNK = 16_384


class Chunk(NamedTuple):
    """Rows of a recording, in stream order."""

    first: int
    """The number of the first row, from 0."""
    P: NDArray[np.float64]
    """Probabilities, shape (n, m), each row divided by its sum."""
    y: NDArray[np.int64]
    """Index of each row's class, -1 where there is no label."""
    arrives: NDArray[np.bool_]
    """Whether the label ever reaches the stream."""
    time: NDArray[Any] | None
    """When each row was predicted, where the recording has times."""
    label_time: NDArray[Any] | None
    """When each label is known."""


class Recording:
    """Predictions in the order they were made, and the labels that became known later.

    Parameters
    ----------
    path
        A file: ``.csv``, ``.jsonl`` (or ``.ndjson``, ``.json``), ``.parquet`` or ``.npz``.
    probs
        Where the probabilities are. Either one column of that name: a list of m numbers (in csv
        the text ``[0.2, 0.8]``; in npz an array (n, m)) or, in JSON lines and parquet, an object
        {class: probability}. Or the beginning of the names of m columns, whose rest (after a
        ``_``, ``.`` or ``/``) is the class: ``probs_cat``, ``probs_dog``.
    label
        The column of labels. A missing one (empty, null) never arrives. Numbers match classes named
        by numbers; where no class is named by a number they are indices of the columns.
    time, label_time
        Columns that say when a row was predicted and when its label was known: numbers, or dates
        (ISO 8601). Both or neither.
    classes
        The names of the classes in the order of the columns, where the file does not say them: npz
        may hold an array ``classes``; lists have 0..m-1.

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
        classes: Sequence[Any] | None = None,
    ) -> None:
        if (time is None) != (label_time is None):
            raise ValueError("time and label_time go together: name both columns or neither")
        self.path = Path(path)
        self._table = open_table(path)
        self._probs, self._keys, found = _layout(self.path, self._table, probs)
        self._label = label
        if (
            label == "label"
            and label not in self._table.columns
            and "labels" in self._table.columns
        ):
            self._label = "labels"
        self._times = [] if time is None or label_time is None else [time, label_time]
        for what, name in [("label", self._label), ("time", time), ("label_time", label_time)]:
            if name is not None and name not in self._table.columns:
                raise _no_column(self.path, self._table, what, name)
        stored = self._table.extra("classes")
        if classes is None and stored is not None:
            classes = stored.tolist()
        self.classes: list[Any] = list(class_names(found if classes is None else classes))
        if len(self.classes) != len(found):
            raise InvalidRecording(
                f"{self.path}: {len(found)} probabilities a row, but {len(self.classes)} classes: "
                f"{', '.join(map(str, self.classes[:8]))}"
            )
        self._columns = ClassIndex(self.classes, "file")
        self.rows = self._table.rows
        self.train_counts: NDArray[Any] | None = self._table.extra("train_counts")
        self.dates = False
        """Whether times are dates (microseconds since 1970); known once a chunk was read."""

    @property
    def has_times(self) -> bool:
        """Whether rows and labels come with their own times."""
        return bool(self._times)

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """The rows in order, `size` at a time, each checked."""
        first, last_time = 0, None
        for probs, labels, times in self._table.batches(
            self._probs, self._keys, self._label, self._times, size
        ):
            P = self._check(probs, first)
            y = self._columns_of(labels, first)
            arrives = y >= 0
            time = label_time = None
            if times:
                time, label_time = times[0].values, times[1].values
                self._check_times(times[0], times[1], first, last_time)
                arrives &= ~times[1].missing
                last_time = time[-1]
            yield Chunk(first, P, y, arrives, time, label_time)
            first += len(P)

    def labelled(self) -> tuple[NDArray[np.float64], list[Any]]:
        """All rows that have a label, at once: validation data for :meth:`Corrector.fit`."""
        parts = [(chunk.P[chunk.y >= 0], chunk.y[chunk.y >= 0]) for chunk in self.chunks()]
        y = np.concatenate([part[1] for part in parts])
        return np.concatenate([part[0] for part in parts]), [self.classes[i] for i in y.tolist()]

    def _check(self, P: NDArray[np.float64], first: int) -> NDArray[np.float64]:
        if P.shape[1] != len(self.classes):
            raise InvalidRecording(
                f"{self.path}: row {first + 1}: {P.shape[1]} probabilities, "
                f"expected {len(self.classes)}: a class is missing"
            )
        for i, why in bad_rows(P, self.classes).items():
            raise InvalidPrediction(f"{self.path}: row {first + i + 1}: {why}")
        scaled: NDArray[np.float64] = P / P.sum(axis=1, keepdims=True)
        return scaled

    def _columns_of(self, labels: list[Any], first: int) -> NDArray[np.int64]:
        try:
            columns = {label: self._columns[label] for label in dict.fromkeys(labels)}
            return np.array([columns[label] for label in labels], np.int64)
        except (UnknownClass, TypeError):  # a list or an object is no key
            for i, label in enumerate(labels):
                try:
                    self._columns.column(label)
                except UnknownClass as error:
                    raise UnknownClass(f"{self.path}: row {first + i + 1}: label {error}") from None
            raise

    def _check_times(self, time: Times, label_time: Times, first: int, before: Any) -> None:
        if time.missing.any():
            row = first + int(time.missing.argmax()) + 1
            raise InvalidRecording(f"{self.path}: row {row}: {self._times[0]} is missing")
        if time.unit != label_time.unit and not label_time.missing.all():
            kinds = [part.unit or "numbers" for part in (time, label_time)]
            raise InvalidRecording(
                f"{self.path}: {self._times[0]} holds {kinds[0]}, {self._times[1]} holds {kinds[1]}"
            )
        self.dates = time.unit == DATES
        values = time.values if before is None else np.append(before, time.values)
        back = values[1:] < values[:-1]
        if back.any():
            row = first + int(back.argmax()) + (1 if before is not None else 2)
            raise InvalidRecording(
                f"{self.path}: row {row}: {self._times[0]} is earlier than in the row before; "
                "sort the rows by it"
            )


def _layout(
    path: Path, table: Table, probs: str
) -> tuple[list[str], list[str] | None, Sequence[Any]]:
    """The columns of the probabilities, the keys of an object, the classes."""
    if probs in table.columns:
        cells = table.cells(probs)
        if isinstance(cells, list):
            return [probs], cells, cells
        if cells is None:
            raise InvalidRecording(
                f"{path}: column {probs!r} holds neither lists nor objects; "
                "name the beginning of the class columns or the column of lists"
            )
        return [probs], None, range(cells)
    columns = [name for name in table.columns if name.startswith(probs)]
    if not columns:
        raise _no_column(path, table, "probs", probs)
    return columns, None, [name[len(probs) :].lstrip("_./") for name in columns]


def _no_column(path: Path, table: Table, what: str, name: str) -> InvalidRecording:
    columns = ", ".join(table.columns[:12]) + (", ..." if len(table.columns) > 12 else "")
    return InvalidRecording(f"{path}: no column {name!r} for {what}; the file has {columns}")


def from_arrays(
    P: ArrayLike, y: ArrayLike, time: ArrayLike | None = None, label_time: ArrayLike | None = None
) -> Iterator[Chunk]:
    """Chunks of arrays in memory, as :func:`stream_can.replay.steps` takes them.

    Parameters
    ----------
    P
        Probabilities, shape (n, m).
    y
        Index of each row's class, shape (n,), -1 where there is no label.
    time, label_time
        When each row was predicted (ascending) and when each label is known, shape (n,); both or
        neither.
    """
    probs, labels = np.asarray(P, np.float64), np.asarray(y, np.int64)
    times = [None if t is None else np.asarray(t) for t in (time, label_time)]
    for first in range(0, len(probs), CHUNK):
        cut = slice(first, first + CHUNK)
        before, after = (None if t is None else t[cut] for t in times)
        arrives = labels[cut] >= 0
        if after is not None and after.dtype.kind in "fM":
            arrives &= ~np.isnan(after)
        yield Chunk(first, probs[cut], labels[cut], arrives, before, after)
