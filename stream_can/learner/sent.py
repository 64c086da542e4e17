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
from stream_can.learner.late import LateLabel
from stream_can.learner.model_name import Name
from stream_can.learner.recent import check_ids
from stream_can.learner.saved import require


class SentVersion(NamedTuple):
    """The rows of one model and version in a batch."""

    name: Name
    classes: tuple[Any, ...]
    rows: NDArray[Any]
    """Rows as bytes, float32: m raw probabilities (float64), m sent ones (float64) and the receipt
    (float32), shape (n, bytes / 4). Of sparse rows a `SparseBlob` each, zero-padded."""
    named: tuple[Any, ...] = ()
    """Of sparse rows: names numbered since the batch before, in the order of their numbers;
    ``classes`` is empty then."""
    corrected: bool = True
    """False for rows that the learner is to correct: ``rows`` then holds them as a `Reader` gives
    them, float64 of shape (n, m), of sparse rows objects of shape (n, 1). They are never
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
    versions: list[SentVersion]
    """Models and versions of the rows."""
    of: NDArray[np.int32]
    """Index into ``versions`` for each row, shape (n,)."""
    segments: dict[str, list[str | None]]
    """Values of the declared segments, one per row."""

    def __len__(self) -> int:
        return len(self.ids)

    def places(self) -> NDArray[np.int64]:
        """Index of each row within its version, shape (n,)."""
        places = np.empty(len(self), np.int64)
        for k, version in enumerate(self.versions):
            places[self.of == k] = np.arange(len(version.rows))
        return places

    def cuts(self) -> list[int]:
        """Indices of the rows at which classes, or the bytes of a row, change, or between rows that
        are corrected and others."""
        sorts = [
            (version.classes, version.rows.shape[1], version.corrected) for version in self.versions
        ]
        of = np.array([sorts.index(sort) for sort in sorts], np.int32)[self.of]
        cuts: list[int] = (np.flatnonzero(np.diff(of)) + 1).tolist()
        return cuts

    def version_cuts(self, versions: Collection[int]) -> list[int]:
        """Indices of the rows at which the given versions begin or end."""
        if not versions:
            return []
        cuts: list[int] = (np.flatnonzero(np.diff(np.isin(self.of, [*versions]))) + 1).tolist()
        return cuts

    def of_versions(self, versions: list[SentVersion], places: NDArray[np.int64]) -> SentBatch:
        """The rows at some places, ascending, with versions that hold these rows alone."""
        if len(places) == len(self):
            return replace(self, versions=versions)
        at = places.tolist()
        return SentBatch(
            [self.ids[i] for i in at], self.numbers[places], self.times[places],
            versions, self.of[places],
            {name: [texts[i] for i in at] for name, texts in self.segments.items()},
        )  # fmt: skip

    def part(self, first: int, last: int) -> SentBatch:
        """The rows from ``first`` to before ``last``."""
        if len(self.versions) == 1:
            (version,) = self.versions
            return SentBatch(
                self.ids[first:last], self.numbers[first:last], self.times[first:last],
                [version._replace(rows=version.rows[first:last])], self.of[first:last],
                {name: texts[first:last] for name, texts in self.segments.items()},
            )  # fmt: skip
        of, places = self.of[first:last], self.places()[first:last]
        used = np.unique(of).tolist()
        versions = [
            version._replace(rows=version.rows[places[of == k]])
            for k, version in ((k, self.versions[k]) for k in used)
        ]
        return SentBatch(
            self.ids[first:last], self.numbers[first:last], self.times[first:last], versions,
            np.searchsorted(used, of).astype(np.int32),
            {name: texts[first:last] for name, texts in self.segments.items()},
        )  # fmt: skip

    def pieces(self, most: int) -> Iterator[tuple[bytes, int]]:
        """Encode the batch in parts of at most ``most`` bytes where they have several rows; yield
        each part with the number of rows up to its end."""
        waiting, n_bytes = [(0, len(self))], sum(version.rows.nbytes for version in self.versions)
        while waiting:
            first, last = waiting.pop()
            n = last - first
            if n < 2 or n_bytes * n <= most * len(self):  # perhaps it fits
                data = (self if n == len(self) else self.part(first, last)).to_bytes()
                if n < 2 or len(data) <= most:
                    yield data, last
                    continue
            half = (first + last) // 2
            waiting += [(half, last), (first, half)]

    def to_bytes(self) -> bytes:
        """Encode the batch, versioned and checksummed, for `read_sent`."""
        arrays: dict[str, NDArray[Any]] = {"numbers": self.numbers, "times": self.times}
        if len(self.versions) > 1:
            arrays["of"] = self.of
        for k, version in enumerate(self.versions):
            arrays[f"rows.{k}"] = version.rows
        texts: dict[str, list[str]] = {}
        for name, values in self.segments.items():
            places: dict[str | None, int] = {None: -1}
            numbers = [places.setdefault(text, len(places) - 1) for text in values]
            arrays[f"column.{name}"] = np.array(numbers, np.int32)
            del places[None]
            texts[name] = list(places)  # type: ignore[arg-type]
        versions = [
            (version.name, list(version.classes), list(version.named)) for version in self.versions
        ]
        head = _SentHead(1, self.ids, versions, texts)
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
        require(numbers.dtype == np.int64 and numbers.shape == (n,), "numbers")
        require((np.diff(numbers) > 0).all() and (numbers[:1] >= 0).all(), "the order of rows")
        require(times.dtype == np.float64 and times.shape == (n,), "times")
        require(not (np.abs(times) > 1e300).any(), "times")
        check_ids(head.ids)
        of = arrays["of"] if len(head.lanes) > 1 else np.zeros(n, np.int32)
        require(of.dtype == np.int32 and of.shape == (n,), "models")
        require(((of >= 0) & (of < len(head.lanes))).all(), "models")
        versions = []
        counts = np.bincount(of, minlength=len(head.lanes))
        for k, (name, classes, named) in enumerate(head.lanes):
            rows = arrays[f"rows.{k}"]
            require(rows.dtype == np.float32 and rows.ndim == 2, "rows")
            require(len(rows) == counts[k] and rows.shape[1] >= 4 * len(classes), "rows")
            key, names = tuple(classes), tuple(named)
            hash((key, names))  # TypeError where one is no name
            versions.append(SentVersion(name, key, rows, names))
        segments: dict[str, list[str | None]] = {}
        for segment, texts in head.texts.items():
            places = arrays[f"column.{segment}"]
            require(places.dtype == np.int32 and places.shape == (n,), "segments")
            require(((places >= -1) & (places < len(texts))).all(), "segments")
            values: list[str | None] = [*texts, None]
            segments[segment] = [values[i] for i in places.tolist()]
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotMismatch(f"snapshot: of sent predictions: {error}") from None
    return SentBatch(head.ids, numbers, times, versions, of, segments)


def segments_of(
    names: Sequence[str], row_segments: Sequence[Given | None]
) -> dict[str, list[str | None]]:
    """Values of the declared segments, by segment; empty where no row has any."""
    if all(values is None for values in row_segments):
        return {}
    return {
        name: [None if values is None else values[k] for values in row_segments]
        for k, name in enumerate(names)
    }
