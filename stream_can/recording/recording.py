"""Recording: predictions and labels in a file, read in chunks, with every row checked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.messages.probability_formats import Forms
from stream_can.method.checks import all_fine, bad_rows
from stream_can.method.class_names import class_names
from stream_can.method.classes import ClassIndex
from stream_can.method.logits import of_logits
from stream_can.method.normalise import divided
from stream_can.method.prior import laplace
from stream_can.method.rows import Normalise
from stream_can.method.segments import column_names, text_of
from stream_can.method.weights import weight_of_label
from stream_can.recording.cells import rows_of
from stream_can.recording.column_hints import no_column
from stream_can.recording.formats import open_table
from stream_can.recording.label_hints import label_hint
from stream_can.recording.layout import (
    column_of_rows,
    find_layout,
    in_other_case,
    may_hold,
    with_names_beside,
)
from stream_can.recording.names import order_of
from stream_can.recording.number_hints import SingleLogits, missing_hint, said_of
from stream_can.recording.recorded_file import RecordedFile
from stream_can.recording.table import InvalidRecording, Names, Table

Array = NDArray[np.float64]

Segments = dict[str, NDArray[np.object_]]
"""Column values of some rows, None where a row has none."""

CHUNK = 16_384


class Chunk(NamedTuple):
    """Consecutive rows of a recording."""

    first: int
    """Number of the first row, from 0."""
    P: NDArray[np.float64]
    """Probabilities, shape (n, m), each row divided by its sum."""
    y: NDArray[np.int64]
    """Index of each row's class, -1 without a label."""
    arrives: NDArray[np.bool_]
    """Whether the label ever arrives."""
    time: NDArray[Any] | None
    """Time of each prediction, where the recording has times."""
    label_time: NDArray[Any] | None
    """Time at which each label is known."""
    segments: Segments | None = None
    weight: NDArray[np.float64] | None = None
    """Weight of each label; 1 without a label."""


def segments_of_rows(segments: Segments | None, rows: Any) -> Segments | None:
    """Column values of some of the rows."""
    return segments and {name: values[rows] for name, values in segments.items()}


class Labelled(NamedTuple):
    """Labelled rows, for :meth:`Corrector.fit`."""

    P: NDArray[np.float64]
    y: list[Any]
    """Names of classes."""
    segments: Segments | None


class Recording(RecordedFile):
    """Predictions in the order they were made, and the labels that became known later.

    Parameters
    ----------
    path
        A file: ``.csv``, ``.tsv``, ``.jsonl`` (or ``.ndjson``, ``.json``), ``.parquet``,
        ``.feather``, ``.npz`` or ``.npy``, also packed as ``.gz``, ``.bz2`` or ``.xz``; ``-`` for
        standard input.
    probs
        Where the probabilities are. Either one column or field of that name (dots reach inside):
        cells in any of the forms that messages have, a list of m numbers, an object {class:
        probability}, a list of {"label", "score"}, one number for two classes; in npz an array
        (n, m). Or what the names of m columns begin with, and the rest (after a ``_``, ``.`` or
        ``/``) is the class: ``probs_cat``, ``probs_dog``; a ``*`` stands for the class, wherever it
        is: ``P(*) [%]``. Without such columns, those named by the classes; without these, the one
        column of whole rows, if there is one.
    label
        The column of labels. A missing one (empty, null) never arrives. Numbers match classes named
        by numbers; where no class is named by a number they are indices of the columns. For npy the
        file of the labels.
    time, label_time
        Columns that say when a row was predicted and when its label was known: numbers, or dates
        (ISO 8601). Both or neither.
    id
        In JSON lines, what joins labels on lines of their own to the predictions before them.
    segments
        Columns whose values come with the predictions, for a corrector that declares some of them.
    weight
        The column of the weight of each label: how many labels it counts as, see
        :meth:`stream_can.Corrector.learn_one`.
    classes
        The names of the classes: those of the file in any order (npz may hold an array
        ``classes``), in which rows then are; or where the file has no names, in the order of the
        columns.
    normalise
        Which rows that do not sum to 1 are divided by their sum: "rounded", those that rounding to
        the digits they have explains; "always", all, as for scores. The first is warned of, and
        ``normalised`` counts them.
    logits
        Whether the numbers are logits; rows are their softmax, multilabel
        rows the logistic function of each.

    Raises
    ------
    InvalidRecording
        The file, a column or a row is not what it should be; the message names it.
    """

    several = False
    """Whether rows have several labels."""

    def __init__(
        self,
        path: str | Path,
        *,
        probs: str = "probs",
        label: str = "label",
        time: str | None = None,
        label_time: str | None = None,
        id: str = "id",
        segments: Sequence[str] = (),
        weight: str | None = None,
        classes: Sequence[Any] | None = None,
        normalise: Normalise = "rounded",
        logits: bool = False,
    ) -> None:
        if normalise not in ("rounded", "always"):
            raise ValueError(f"normalise: {normalise!r}, expected 'rounded' or 'always'")
        super().__init__(path, time, label_time)
        self._table = table = open_table(self._source, Names(probs, label, id))
        self._label, self._normalise, self._logits = label, normalise, logits
        self.weight = weight
        """The column of the weights of labels, if any."""
        # The default name also matches `labels`.
        if label == "label" and label not in table.columns and "labels" in table.columns:
            self._label = "labels"
        self._label = in_other_case(table, self._label)
        guessed = None
        if probs == "probs" and not any(name.startswith(probs) for name in table.columns):
            guessed = column_of_rows(table, [self._label, id, *self.times.names, *segments])
            if guessed is not None:
                probs = guessed
                self._table = table = open_table(self._source, Names(probs, label, id))
        beside = with_names_beside(table, probs, [self._label, id, *self.times.names, *segments])
        if beside != probs:
            probs = beside
            self._table = table = open_table(self._source, Names(probs, label, id))
        self.segments = column_names(segments)
        for purpose, name in [
            ("label", self._label),
            ("time", time),
            ("label_time", label_time),
            *(("segments", name) for name in self.segments),
            ("weight", weight),
        ]:
            if name is None or may_hold(table, name) or (purpose == "label" and self._apart(table)):
                continue
            if purpose != "label" or not table.labels_apart:
                raise no_column(self.name, table, purpose, name)
        if guessed is not None:
            warnings.warn(
                f"{self.name}: the probabilities are those of column {guessed!r}; --probs names"
                " another",
                stacklevel=2,
            )
        stored = [] if (array := table.extra("classes")) is None else array.tolist()
        self._order = order_of(self.name, stored, classes)
        """Place in the file of each class, where classes are given in another order."""
        classes = stored or None if classes is None else classes
        self.probs = probs
        """Where the probabilities are; two fields are joined by a comma."""
        prefix = probs.partition("*")[0]
        values = [name for name in self.segments if not name.startswith(prefix)]
        other_columns = [self._label, id, *self.times.names, *values, *filter(None, [weight])]
        self._columns, self._cells, names = find_layout(
            self.name, table, probs, classes, other_columns, normalise
        )
        self.single_logits = SingleLogits(self.probs)
        self.columns_name_classes = len(self._columns) > 1 and all(
            str(name) in column for name, column in zip(names, self._columns, strict=True)
        )
        """Whether another order of the classes would be one of the columns, too."""
        for name in self.segments:
            if name in (self._label, *self.times.names, *self._columns):
                raise InvalidRecording(
                    f"{self.name}: segments: {name!r} holds labels, times or probabilities"
                )
        self.classes: list[Any] = list(class_names(names))
        self._index = ClassIndex(self.classes if self._order is None else stored, "file")
        self.rows = table.rows
        self.train_counts: NDArray[Any] | None = table.extra("train_counts")
        if self.train_counts is not None and self._order is not None:
            self.train_counts = self.train_counts[self._order]
        train = None if self.several or self.train_counts is None else laplace(self.train_counts)
        self._forms = Forms(self.classes, train, of_scores=self.several, logits=logits)
        self.normalised = 0
        """Number of rows divided by their sum so far."""

    def _apart(self, table: Table) -> bool:
        """Whether labels are in columns under another name."""
        return False

    @property
    def read_as(self) -> str:
        """Which columns were taken for what."""
        names, n = [str(name) for name in self._columns], len(self.classes)
        columns = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"
        if len(names) == 2:
            columns = ", ".join(names)
        classes = ", ".join(map(str, self.classes[:4])) + (", ..." if n > 4 else "")
        return (
            f"probabilities: {columns} ({n} {'labels' if self.several else 'classes'}: {classes});"
            f" labels: {self._label}{' (numbers of classes)' * self.labels_are_positions}"
        )

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Iterate over checked rows in order, `size` at a time."""
        first = 0
        self._begin()
        for probs, labels, times, cells, later_labels in self._table.batches(
            self._columns, self._label, self.times.names, size,
            [*self.segments, *filter(None, [self.weight])],
        ):  # fmt: skip
            P = self._check(probs, first)
            y = self._columns_of(labels, first)
            for number, label, _ in later_labels:
                row = number - first
                if self._columns_of([label], number)[0] not in (y[row], -1):
                    self._add_changed(number, labels[row], label)
            time, label_time, arrives = self.times.take(times, first, y >= 0)
            weight = None
            if self.weight is not None:
                *cells, weights = cells
                weight, places = np.ones(len(y)), np.flatnonzero(y >= 0)
                weight[places] = self._read(_weight_of, weights, places, first, self.weight)
            segments = self._segments(cells, first)
            yield Chunk(first, P, y, arrives, time, label_time, segments, weight)
            first += len(P)

    def labelled(self) -> tuple[NDArray[np.float64], list[Any]]:
        """All labelled rows at once: validation data for :meth:`Corrector.fit`."""
        return self.labelled_with_segments()[:2]

    def labelled_with_segments(self) -> Labelled:
        """:meth:`labelled`, with the column values of the rows."""
        parts = [(chunk, chunk.y >= 0) for chunk in self.chunks()]
        y = np.concatenate([chunk.y[is_labelled] for chunk, is_labelled in parts])
        segments = {
            name: np.concatenate([chunk.segments[name][is_labelled] for chunk, is_labelled in parts
                                  if chunk.segments is not None])
            for name in self.segments
        }  # fmt: skip
        P = np.concatenate([chunk.P[is_labelled] for chunk, is_labelled in parts])
        return Labelled(P, [self.classes[i] for i in y.tolist()], segments or None)

    def _segments(self, cells: Sequence[list[Any]], first: int) -> Segments | None:
        """Column values of some rows."""
        if not self.segments:
            return None
        table: Segments = {}
        for name, values in zip(self.segments, cells, strict=True):
            texts = table[name] = np.empty(len(values), object)
            texts[:] = self._read(text_of, values, range(len(values)), first, f"segments: {name}")
        return table

    def _read(
        self, read: Callable[[Any], Any], cells: list[Any], at: Iterable[int], first: int, name: str
    ) -> list[Any]:
        """What some cells of a column say; InvalidRecording names the row of one that is none."""
        values = list[Any]()
        for i in at:
            try:
                values.append(read(cells[i]))
            except ValueError as error:
                raise InvalidRecording(
                    f"{self.name}: row {first + i + 1}: {name}: {error}"
                ) from None
        return values

    def _check(self, cells: Array | list[Any], first: int) -> Array:
        """Convert cells to rows that sum to 1, shape (n, m).

        Rows with another sum are divided by it where ``normalise`` allows, and checked again.
        """
        P = self._rows(cells, first)
        if bad := bad_rows(P, self.classes):
            P, n = divided(P, self._normalise)
            if n and not self.normalised and self._normalise == "rounded":
                row = first + min(bad) + 1
                warnings.warn(
                    f"{self.name}: rows that are off by rounding are divided by their sum"
                    f" (row {row}: {bad[row - first - 1].partition(';')[0]})",
                    stacklevel=3,
                )
            self.normalised += n
            for i, why in bad_rows(P, self.classes).items():
                said = said_of(why, P[i], cells, self.probs)
                if np.isnan(P[i]).any() and len(self._columns) > 1:
                    said = why + missing_hint(
                        self._table.batches(self._columns, self._label, [], CHUNK, [])
                    )
                raise InvalidPrediction(f"{self.name}: row {first + i + 1}: {said}")
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def _of_logits(self, Z: Array, first: int) -> Array:
        """Convert rows of logits to probabilities."""
        if first == 0 and not self.several and all_fine(Z):
            warnings.warn(
                f"{self.name}: the rows sum to 1: probabilities, not logits? Leave --logits out",
                stacklevel=4,
            )
        if Z.shape[1] == 2 and not self.several and self._cells:
            self.single_logits.add_rows(Z)
        P, bad = of_logits(Z, several=self.several)
        for i, why in bad.items():
            raise InvalidPrediction(f"{self.name}: row {first + i + 1}: {why}")
        return P

    def _rows(self, cells: Array | list[Any], first: int) -> Array:
        """Convert cells to rows of numbers, shape (n, m)."""
        rows = cells
        if not isinstance(rows, np.ndarray):
            rows = rows_of(rows, self._forms, self.name, first)
        if rows.shape[1] != len(self.classes):
            raise InvalidRecording(
                f"{self.name}: row {first + 1}: {rows.shape[1]} probabilities, expected"
                f" {len(self.classes)}: a {'label' if self.several else 'class'} is missing"
            )
        if self._order is not None and not isinstance(cells[0], dict):
            rows = rows[:, self._order]
        return self._of_logits(rows, first) if self._logits else rows

    def _columns_of(self, labels: list[Any], first: int) -> NDArray[np.int64]:
        """Index of each label's class; -1 for none. Each name is looked up once."""
        y = self._indices(labels, first)
        return y if self._order is None else np.append(np.argsort(self._order), -1)[y]

    def _indices(self, labels: list[Any], first: int) -> NDArray[np.int64]:
        """Index of each label's class in the order of the file."""
        try:
            columns = {label: self._index[label] for label in dict.fromkeys(labels)}
            self.labels_are_positions |= self._index.by_position and any(
                k >= 0 and self._index.is_position(label) for label, k in columns.items()
            )
            return np.array([columns[label] for label in labels], np.int64)
        except (UnknownClass, TypeError):  # a list or an object cannot be a key
            indices = []
            for i, label in enumerate(labels):
                try:
                    indices.append(self._index.column(label))
                except UnknownClass as error:
                    hint = label_hint(
                        label, self._label, self._table, self.classes, str(self.path),
                        self._source.suffix, self._columns,
                    )  # fmt: skip
                    raise UnknownClass(
                        f"{self.name}: row {first + i + 1}: label {error}{hint}"
                    ) from None
            return np.array(indices, np.int64)


def _weight_of(cell: Any) -> float:
    """The weight of a cell, which may be text."""
    with suppress(TypeError, ValueError):
        cell = float(cell)
    return weight_of_label(cell)
