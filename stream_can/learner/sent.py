"""Sent batches: raw and sent predictions in bytes, for the process that learns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.learner.kinds import Given
from stream_can.learner.lane import Name
from stream_can.learner.late import LateLabel
from stream_can.learner.recent import check_ids

__all__ = ["NO_ROWS", "Events", "SentBatch", "SentLane", "read_labels", "read_sent", "write_labels"]


class SentLane(NamedTuple):
    """The rows of one model and version in a batch."""

    name: Name
    classes: tuple[Any, ...]
    rows: NDArray[Any]
    """Rows as bytes, float32: m raw probabilities (float64), m sent ones (float64) and the receipt
    (float32), shape (n, bytes / 4). Of very many classes a `SparseBlob` each, zero-padded."""
    named: tuple[Any, ...] = ()
    """Of very many classes: names numbered since the batch before, in the order of their numbers;
    ``classes`` is empty then."""
    corrected: bool = True
    """False for rows that the learner is to correct: ``rows`` then holds them as a `Reader` gives
    them, float64 of shape (n, m), of very many classes objects of shape (n, 1). They are never
    encoded."""

    @property
    def raw(self) -> NDArray[np.float64]:
        """Raw rows, shape (n, m)."""
        return self._float64(0)

    @property
    def sent(self) -> NDArray[np.float64]:
        """Sent rows, shape (n, m)."""
        return self._float64(2 * len(self.classes))

    @property
    def receipts(self) -> NDArray[np.float32]:
        """Receipts, shape (n, numbers of a receipt)."""
        return self.rows[:, 4 * len(self.classes) :]

    def _float64(self, at: int) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.rows[:, at : at + 2 * len(self.classes)]).view(np.float64)


@dataclass(frozen=True, eq=False)
class SentBatch:
    """Predictions, in the order in which they were corrected."""

    ids: list[Any]
    """Ids; None for a row that no label can name."""
    numbers: NDArray[np.int64]
    """Consecutive numbers of the rows, ascending, shape (n,)."""
    times: NDArray[np.float64]
    """Times in seconds, NaN where missing."""
    lanes: list[SentLane]
    """Models and versions of the rows."""
    of: NDArray[np.int32]
    """Index into ``lanes`` for each row, shape (n,)."""
    segments: dict[str, list[str | None]]
    """Values of the declared segments, one per row."""

    def __len__(self) -> int:
        return len(self.ids)

    def places(self) -> NDArray[np.int64]:
        """Index of each row within its lane, shape (n,)."""
        places = np.empty(len(self), np.int64)
        for k, lane in enumerate(self.lanes):
            places[self.of == k] = np.arange(len(lane.rows))
        return places

    def cuts(self) -> list[int]:
        """Indices of the rows at which classes, or the bytes of a row, change, or between rows that
        are corrected and others."""
        sorts = [(lane.classes, lane.rows.shape[1], lane.corrected) for lane in self.lanes]
        of = np.array([sorts.index(one) for one in sorts], np.int32)[self.of]
        cuts: list[int] = (np.flatnonzero(np.diff(of)) + 1).tolist()
        return cuts

    def lane_cuts(self, lanes: Collection[int]) -> list[int]:
        """Indices of the rows at which the given lanes begin or end."""
        if not lanes:
            return []
        cuts: list[int] = (np.flatnonzero(np.diff(np.isin(self.of, [*lanes]))) + 1).tolist()
        return cuts

    def of_lanes(self, lanes: list[SentLane], kept: NDArray[np.int64]) -> SentBatch:
        """The rows at some places, ascending, with lanes that hold these rows alone."""
        if len(kept) == len(self):
            return replace(self, lanes=lanes)
        at = kept.tolist()
        return SentBatch(
            [self.ids[i] for i in at], self.numbers[kept], self.times[kept], lanes, self.of[kept],
            {name: [texts[i] for i in at] for name, texts in self.segments.items()},
        )  # fmt: skip

    def part(self, first: int, last: int) -> SentBatch:
        """The rows from ``first`` to before ``last``."""
        if len(self.lanes) == 1:
            (lane,) = self.lanes
            return SentBatch(
                self.ids[first:last], self.numbers[first:last], self.times[first:last],
                [lane._replace(rows=lane.rows[first:last])], self.of[first:last],
                {name: texts[first:last] for name, texts in self.segments.items()},
            )  # fmt: skip
        every, places = self.of[first:last], self.places()[first:last]
        used = np.unique(every).tolist()
        lanes = [
            one._replace(rows=one.rows[places[every == k]])
            for k, one in ((k, self.lanes[k]) for k in used)
        ]
        return SentBatch(
            self.ids[first:last], self.numbers[first:last], self.times[first:last], lanes,
            np.searchsorted(used, every).astype(np.int32),
            {name: texts[first:last] for name, texts in self.segments.items()},
        )  # fmt: skip

    def pieces(self, most: int) -> Iterator[tuple[bytes, int]]:
        """Encode the batch in parts of at most ``most`` bytes where they have several rows; yield
        each part with the number of rows up to its end."""
        waiting, whole = [(0, len(self))], sum(lane.rows.nbytes for lane in self.lanes)
        while waiting:
            first, last = waiting.pop()
            n = last - first
            if n < 2 or whole * n <= most * len(self):  # perhaps it fits
                data = (self if n == len(self) else self.part(first, last)).to_bytes()
                if n < 2 or len(data) <= most:
                    yield data, last
                    continue
            half = (first + last) // 2
            waiting += [(half, last), (first, half)]

    def to_bytes(self) -> bytes:
        """Encode the batch, versioned and checksummed, for `read_sent`."""
        arrays: dict[str, NDArray[Any]] = {"numbers": self.numbers, "times": self.times}
        if len(self.lanes) > 1:
            arrays["of"] = self.of
        for k, lane in enumerate(self.lanes):
            arrays[f"rows.{k}"] = lane.rows
        texts: dict[str, list[str]] = {}
        for name, values in self.segments.items():
            places: dict[str | None, int] = {None: -1}
            numbers = [places.setdefault(text, len(places) - 1) for text in values]
            arrays[f"column.{name}"] = np.array(numbers, np.int32)
            del places[None]
            texts[name] = list(places)  # type: ignore[arg-type]
        lanes = [(one.name, list(one.classes), list(one.named)) for one in self.lanes]
        head = _SentHead(1, self.ids, lanes, texts)
        return snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), arrays)


NO_ROWS = SentBatch([], np.zeros(0, np.int64), np.zeros(0), [], np.zeros(0, np.int32), {})
"""A batch without rows."""


class _SentHead(msgspec.Struct):
    """Head of a batch: everything but its arrays."""

    sent: Literal[1]
    ids: list[Any]
    lanes: list[tuple[Name, list[Any], list[Any]]]
    texts: dict[str, list[str]]


class Events(NamedTuple):
    """Input of a learner: predictions and the labels between them."""

    sent: SentBatch
    labels: list[LateLabel]
    """In order of arrival; ``due`` of each says before which row."""
    starts: list[tuple[int, Name, bytes]] = []  # noqa: RUF012
    """Own initial correctors of models, see :meth:`Learner.start`: index of the row before which,
    the model and version, and the snapshot."""


def read_sent(data: bytes) -> SentBatch:
    """Decode :meth:`SentBatch.to_bytes`.

    Raises
    ------
    SnapshotMismatch
        The bytes are truncated, corrupt, of another version or of another kind.
    """
    head, arrays = snapshot.of_kind(data, "sent", "sent batch", _SentHead)
    n = len(head.ids)
    try:
        numbers, times = arrays["numbers"], arrays["times"]
        _require(numbers.dtype == np.int64 and numbers.shape == (n,), "numbers")
        _require((np.diff(numbers) > 0).all() and (numbers[:1] >= 0).all(), "the order of rows")
        _require(times.dtype == np.float64 and times.shape == (n,), "times")
        _require(not (np.abs(times) > 1e300).any(), "times")
        check_ids(head.ids)
        of = arrays["of"] if len(head.lanes) > 1 else np.zeros(n, np.int32)
        _require(of.dtype == np.int32 and of.shape == (n,), "models")
        _require(((of >= 0) & (of < len(head.lanes))).all(), "models")
        lanes = []
        counts = np.bincount(of, minlength=len(head.lanes))
        for k, (lane, classes, named) in enumerate(head.lanes):
            rows = arrays[f"rows.{k}"]
            _require(rows.dtype == np.float32 and rows.ndim == 2, "rows")
            _require(len(rows) == counts[k] and rows.shape[1] >= 4 * len(classes), "rows")
            key, names = tuple(classes), tuple(named)
            hash((key, names))  # TypeError where one is no name
            lanes.append(SentLane(lane, key, rows, names))
        segments: dict[str, list[str | None]] = {}
        for name, texts in head.texts.items():
            places = arrays[f"column.{name}"]
            _require(places.dtype == np.int32 and places.shape == (n,), "segments")
            _require(((places >= -1) & (places < len(texts))).all(), "segments")
            values: list[str | None] = [*texts, None]
            segments[name] = [values[i] for i in places.tolist()]
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotMismatch(f"snapshot: of sent predictions: {error}") from None
    return SentBatch(head.ids, numbers, times, lanes, of, segments)


def _require(fits: Any, what: str) -> None:
    if not fits:
        raise ValueError(what)


def segments_of(names: Sequence[str], given: Sequence[Given | None]) -> dict[str, list[str | None]]:
    """Values of the declared segments, by segment; empty where no row has any."""
    if all(one is None for one in given):
        return {}
    return {
        name: [None if one is None else one[k] for one in given] for k, name in enumerate(names)
    }


class _Labels(msgspec.Struct):
    """Labels as bytes."""

    labels: list[LateLabel]


def write_labels(labels: Sequence[LateLabel]) -> bytes:
    """Encode labels, checksummed, for `read_labels`."""
    told = []
    for one in labels:
        label, row = one.label, one.row
        if isinstance(label, np.ndarray):
            label = label.astype(np.int8).tobytes()
        if row is not None and not isinstance(row, dict):
            row = np.asarray(row, "<f8").tobytes()
        told.append(msgspec.structs.replace(one, label=label, row=row))
    return snapshot.encode(msgspec.to_builtins(_Labels(told), builtin_types=(bytes,)), {})


def read_labels(data: bytes) -> list[LateLabel]:
    """Decode :func:`write_labels`.

    Raises
    ------
    SnapshotMismatch
        As for `read_sent`.
    """
    head, _ = snapshot.of_kind(data, "labels", "labels", _Labels)
    for one in head.labels:
        if one.row is not None and not isinstance(one.row, dict):
            if not isinstance(one.row, bytes) or len(one.row) % 8:
                raise SnapshotMismatch("snapshot: of labels: a row")
            one.row = np.frombuffer(one.row, "<f8")
    return head.labels
