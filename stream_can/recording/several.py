"""Recordings of multilabel rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.method.class_names import preview
from stream_can.method.classes import ClassIndex
from stream_can.multilabel.loop import outside
from stream_can.recording.cells import parsed
from stream_can.recording.recording import CHUNK, Recording, Segments
from stream_can.recording.table import InvalidRecording, Table

Labels = NDArray[np.int8]

NUMBERS = 1 << 22
"""Maximum number of scores in a chunk."""
WORDS = {"1": 1, "true": 1, "yes": 1, "0": 0, "false": 0, "no": 0, "": -1, "-1": -1, "none": -1,
         "nan": -1}  # fmt: skip
"""Texts of a cell in a column for one label."""
NO_WORD = 2


class MultiLabelChunk(NamedTuple):
    """Consecutive rows of a recording, with the label messages about them."""

    first: int
    """Number of the first row, from 0."""
    P: NDArray[np.float64]
    """Scores, shape (n, m)."""
    Y: Labels
    """Known labels of each row: 1, 0, or -1 where unknown, shape (n, m)."""
    time: NDArray[Any] | None
    """Time of each prediction, where the recording has times."""
    of: NDArray[np.int64]
    """Row number of each message, shape (k,)."""
    said: Labels
    """New labels in each message, shape (k, m)."""
    at: NDArray[Any] | None
    """Time at which each message is known, shape (k,)."""
    segments: Segments | None = None
    """Column values of each row."""

    @property
    def arrives(self) -> NDArray[np.bool_]:
        """Whether any label of each row ever arrives."""
        arrives = np.zeros(len(self.P), np.bool_)
        arrives[self.of - self.first] = True
        return arrives


class MultiLabelRecording(Recording):
    """Predictions with a score for each label, and labels that became known later.

    Parameters
    ----------
    path
        A file, as for :class:`Recording`.
    probs
        Where the scores are: a column of cells in any of the forms that :class:`Recording` has, but
        a number; or what the names of m columns begin with: ``scores_invoice``. None may be
        missing.
    label
        Where the labels are: a column of cells, each a list of the names that the row has, or an
        object {label: whether it has it}, also as text; in npz an array (n, m) of 1, 0 and -1 where
        nobody said. Or what the names of m columns begin with, with 1, 0 or nothing in each. In
        JSON lines also lines of their own, several for an id: of each label the first word counts.
    time, label_time, id, segments, classes, logits
        As for :class:`Recording`.

    Raises
    ------
    InvalidRecording
        The file, a column or a row is not what it should be; the message names it.
    """

    several = True

    def __init__(
        self,
        path: str | Path,
        *,
        probs: str = "scores",
        label: str = "labels",
        time: str | None = None,
        label_time: str | None = None,
        id: str = "id",
        segments: Sequence[str] = (),
        classes: Sequence[Any] | None = None,
        logits: bool = False,
    ) -> None:
        super().__init__(
            path, probs=probs, label=label, time=time, label_time=label_time, id=id,
            segments=segments, classes=classes, logits=logits,
        )  # fmt: skip
        rows = self._table.extra("train_rows")
        self.train_rows: float | None = None if rows is None else float(rows)
        self._names = ClassIndex(self.classes, "json")
        self._each: list[str] = []
        """Columns of the labels, where each has one."""
        if self._apart(self._table):
            self._each = self._columns_of_labels()

    def _apart(self, table: Table) -> bool:
        return self._label not in table.columns and any(
            name.startswith(self._label) for name in table.columns
        )

    def _columns_of_labels(self) -> list[str]:
        """Find the column of each label."""
        rest = {column.removeprefix(self._label).lstrip("_./: -"): column
                for column in self._table.columns if column.startswith(self._label)}  # fmt: skip
        for name in self.classes:
            if str(name) not in rest:
                raise InvalidRecording(
                    f"{self.name}: no column of label {name!r} among {preview(list(rest.values()))}"
                )
        return [rest[str(name)] for name in self.classes]

    def chunks(self, size: int = CHUNK) -> Iterator[MultiLabelChunk]:  # type: ignore[override]
        """Iterate over checked rows in order, at most `size` at a time."""
        first, m = 0, len(self.classes)
        self._begin()
        label = self._each[0] if self._each else self._label
        for cells, labels, times, columns, later_labels in self._table.batches(
            self._columns, label, self.times.names, min(size, max(64, NUMBERS // m)),
            [*self._each, *self.segments],
        ):  # fmt: skip
            P = np.array(self._rows(cells, first), np.float64, order="C")
            if (place := outside(P)) is not None:
                row, k = place
                raise InvalidPrediction(
                    f"{self.name}: row {first + row + 1}: the score of label {self.classes[k]!r} is"
                    f" {P[row, k]}, expected a number from 0 to 1"
                )
            each, texts = columns[: len(self._each)], columns[len(self._each) :]
            Y = self._by_column(each, first) if self._each else self._by_cell(labels, first)
            time, at, comes = self.times.take(times, first, np.any(Y >= 0, axis=1))
            of = np.flatnonzero(comes)
            chunk = MultiLabelChunk(
                first, P, Y, time, of + first, Y[of].copy(), None if at is None else at[of],
                self._segments(texts, first),
            )  # fmt: skip
            yield self._with_more(chunk, later_labels) if later_labels else chunk
            first += len(P)

    def _by_cell(self, cells: Sequence[Any], first: int) -> Labels:
        Y = np.full((len(cells), len(self.classes)), -1, np.int8)
        for i, cell in enumerate(cells):
            self._put_labels(cell, Y[i], first + i)
        return Y

    def _put_labels(self, cell: Any, row: Labels, number: int) -> None:
        """Store a cell's labels in a row of -1."""
        cell = parsed(cell)
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            return
        where = f"{self.name}: row {number + 1}: {self._label}"
        if isinstance(cell, np.ndarray):
            if cell.shape != row.shape or not np.isin(cell, (1, 0, -1)).all():
                raise UnknownClass(
                    f"{where}: {preview(cell.tolist())}, expected {len(row)} of 1, 0, or -1 where"
                    " it is not known"
                )
            row[:] = cell if self._order is None else cell[self._order]
        elif isinstance(cell, dict):
            for name, applies in cell.items():
                if applies not in (None, True, False):
                    raise UnknownClass(f"{where}: {name!r} is {applies!r}, expected true or false")
                if applies is not None:
                    row[self._label_index(name, where)] = applies
        elif isinstance(cell, list):
            row[:] = 0
            for name in cell:
                k = self._label_index(name, where)
                if row[k]:
                    raise UnknownClass(
                        f"{where}: {name!r} is in it twice, expected the names of the labels that"
                        " the row has"
                    )
                row[k] = 1
        else:
            raise UnknownClass(
                f'{where}: {cell!r}, expected a list of labels, as ["invoice", "urgent"], or an'
                " object {label: true}"
            )

    def _label_index(self, name: Any, where: str) -> int:
        try:
            return self._names[name]
        except (UnknownClass, TypeError):
            raise UnknownClass(
                f"{where}: {name!r} is none of the {len(self.classes)} labels:"
                f" {preview(self.classes)}"
            ) from None

    def _by_column(self, columns: list[list[Any]], first: int) -> Labels:
        Y = np.full((len(columns[0]), len(columns)), -1, np.int8)
        for k, cells in enumerate(columns):
            texts = [str(cell) for cell in cells]
            words = {text: _word(text) for text in dict.fromkeys(texts)}
            Y[:, k] = [words[text] for text in texts]
            bad = np.flatnonzero(Y[:, k] == NO_WORD)
            if bad.size:
                i = int(bad[0])
                raise UnknownClass(
                    f"{self.name}: row {first + i + 1}: {self._each[k]} is {cells[i]!r}, expected"
                    " 1 or 0, or nothing where it is not known"
                )
        return Y

    def _named(self, known: Labels) -> dict[Any, bool]:
        """The known labels of a row, and whether it has each."""
        return {self.classes[k]: bool(known[k]) for k in np.flatnonzero(known >= 0).tolist()}

    def _with_more(
        self, chunk: MultiLabelChunk, later_labels: Sequence[tuple[int, Any, int]]
    ) -> MultiLabelChunk:
        """Add further messages about its rows."""
        of, new_labels, at = [], [], []
        for number, cell, position in later_labels:
            now, known = np.full(len(self.classes), -1, np.int8), chunk.Y[number - chunk.first]
            self._put_labels(cell, now, number)
            if ((known >= 0) & (now >= 0) & (known != now)).any():
                self._add_changed(number, self._named(known), cell)
            now[known >= 0] = -1
            if (now >= 0).any():
                known[now >= 0] = now[now >= 0]
                of.append(number)
                new_labels.append(now)
                at.append(position)
        if not of:
            return chunk
        assert chunk.at is not None
        return chunk._replace(
            of=np.concatenate([chunk.of, of]),
            said=np.concatenate([chunk.said, new_labels]),
            at=np.concatenate([chunk.at, at]),
        )


def _word(text: str) -> int:
    """Parse a cell of a column for one label: 1, 0, -1, or `NO_WORD`."""
    return WORDS.get(text.strip().lower().removesuffix(".0"), NO_WORD)
