"""DeclaredClasses: what adapters share whose classes are declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.learner.kinds import Given, JoinedLabel
from stream_can.learner.model_name import Name
from stream_can.learner.recent import Recent
from stream_can.learner.sent import SentVersion
from stream_can.method.segments import Texts

Array = NDArray[np.float64]


class DeclaredRows(NamedTuple):
    """Rows of a call, with their values of the declared segments."""

    raw: Array
    texts: Texts | None = None
    sent_blobs: NDArray[np.float32] | None = None
    """What another corrector made of them, see :attr:`SentVersion.rows`."""


class PlacedLabels(NamedTuple):
    """Labels of a run, with rows for them."""

    P: Array
    """First rows of labels, then those of the run."""
    first: int
    """Number of the former: rows that came with a label, then rows of kept predictions."""
    of: NDArray[np.int64]
    """Row of each label in ``P``, -1 where it is gone."""
    with_row: list[int]
    """Which labels came with a row."""
    with_entry: list[int]
    """Which labels have a kept prediction, which is in ``entries``."""
    entries: list[Recent]
    receipts: NDArray[np.float32]
    """Receipts of these predictions."""


class DeclaredClasses:
    """Part of an adapter: classes are declared, and every row has a number for each."""

    classes: tuple[Any, ...]
    width: int
    n_named = 0
    numbering = lookup = None

    def names_from(self, n: int) -> tuple[Any, ...]:
        """Return nothing: all classes are declared."""
        return ()

    def number_and_check(self, lane: SentVersion) -> bool:
        """Whether the rows of a sent batch have these classes."""
        return lane.classes == self.classes

    # ---- rows

    def given_rows(self, P: Any) -> Array:
        """Rows that are to be corrected without learning, shape (n, m)."""
        return np.ascontiguousarray(P, np.float64)

    def mark_corrected(self, rows: DeclaredRows, blobs: NDArray[np.float32]) -> DeclaredRows:
        """Mark the rows of a call as corrected elsewhere."""
        return rows._replace(sent_blobs=blobs)

    def cut(self, rows: DeclaredRows, numbers: Sequence[int]) -> DeclaredRows:
        """Select rows."""
        raw, texts, sent_blobs = rows
        if texts is not None:
            texts = [None if column is None else [column[i] for i in numbers] for column in texts]
        return DeclaredRows(
            raw[numbers], texts, None if sent_blobs is None else sent_blobs[numbers]
        )

    def given(self, rows: DeclaredRows, i: int) -> Given | None:
        """Segment values of one row."""
        if rows.texts is None:
            return None
        return tuple([None if column is None else column[i] for column in rows.texts])

    def blank(self, n: int) -> Array:
        """Allocate the output of n rows."""
        return np.empty((n, len(self.classes)))

    def put(self, room: Array, numbers: Sequence[int] | None, sent: Array) -> None:
        """Write the output of some rows, or of all."""
        room[slice(None) if numbers is None else numbers] = sent

    # ---- bytes of rows

    def width_of(self, rows: DeclaredRows, i: int) -> int:
        """Bytes of a row's blob; the same for all rows."""
        return self.width

    def raw(self, rows: DeclaredRows, i: int) -> bytes:
        """The first part of a row's blob."""
        row: Array = rows.raw[i]
        return row.tobytes()

    def raw_of(self, blob: bytes) -> bytes:
        """Decode the row of a blob."""
        return blob[: 8 * len(self.classes)]

    def told_row(self, row: bytes) -> Array:
        """Decode a row that came with a label."""
        return np.frombuffer(row)

    def _sent_of(self, blobs: NDArray[np.float32]) -> Array:
        """The rows that another corrector sent."""
        m = len(self.classes)
        return np.ascontiguousarray(blobs[:, 2 * m : 4 * m]).view(np.float64)

    def _cut_blobs(self, data: NDArray[np.float32]) -> list[bytes]:
        """Blobs of equal width, one a row, as bytes each."""
        joined, width = data.astype("<f4").tobytes(), self.width
        return [joined[at : at + width] for at in range(0, len(data) * width, width)]

    # ---- sent batches

    def sent_version(
        self, name: Name, raw: Array, sent: Array, receipts: NDArray[np.float32]
    ) -> SentVersion:
        """Encode corrected rows for the learner."""
        words = [np.ascontiguousarray(part).view(np.float32) for part in (raw, sent)]
        return SentVersion(name, self.classes, np.concatenate([*words, receipts], axis=1))

    def listed(self, lane: SentVersion, i: int) -> tuple[list[float], list[float], list[Any]]:
        """A row of a lane and the row that was sent, as lists, and their classes."""
        lane = lane._replace(rows=lane.rows[[i]])
        return lane.raw[0].tolist(), lane.sent[0].tolist(), [*lane.classes]

    def load_rows(self, lane: SentVersion) -> Array:
        """Read the rows of a sent batch's lane as rows of a call."""
        return lane.raw

    # ---- labels

    def _place(
        self,
        labels: Sequence[JoinedLabel],
        raw: Array,
        sent_blobs: NDArray[np.float32] | None,
    ) -> PlacedLabels:
        """Find the row of each label: it came with the label, is one of this run, or was kept."""
        m = len(self.classes)
        with_row, from_run, with_entry = list[int](), list[int](), list[int]()
        places, blobs, entries = list[int](), list[bytes](), list[Recent]()
        for i, label in enumerate(labels):
            entry = label.entry
            if label.row is not None:
                with_row.append(i)
            elif entry is None:
                continue
            elif (at := entry.at) >= 0 and sent_blobs is None:
                from_run.append(i)
                places.append(at)
            else:
                with_entry.append(i)
                entries.append(entry)
                blobs.append(
                    entry.blob if sent_blobs is None or at < 0 else sent_blobs[at].tobytes()
                )
        first = len(with_row) + len(with_entry)
        of = np.full(len(labels), -1, np.int64)
        of[with_row + with_entry] = np.arange(first)
        of[from_run] = first + np.array(places, np.int64)
        data = np.frombuffer(b"".join(blobs), np.float32).reshape(len(with_entry), self.width // 4)
        if first:
            rows = np.frombuffer(b"".join([labels[i].row or b"" for i in with_row]))
            of_kept = np.ascontiguousarray(data[:, : 2 * m]).view(np.float64)
            raw = np.concatenate([rows.reshape(len(with_row), m), of_kept, raw])
        return PlacedLabels(raw, first, of, with_row, with_entry, entries, data[:, 4 * m :])
