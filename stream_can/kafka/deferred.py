"""Deferred batches: records of the input that a worker hands over to the learner to correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.messages.records import Record, Source

__all__ = ["DeferredBatch", "pieces_of", "read_deferred"]

MOST_RECORDS = 64
"""Maximum number of records of a batch: the learner takes whole ones, and merges partitions."""

Written = tuple[int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]
"""Offset, timestamp, key, value and headers of a record."""


class _DeferredHead(msgspec.Struct):
    """Content of a deferred batch."""

    deferred: Literal[1]
    topic: str
    partition: int
    records: list[Written]


@dataclass(frozen=True, eq=False)
class DeferredBatch:
    """Records of one partition of the input, in order."""

    records: list[Record]
    times: NDArray[np.float64]
    """Times that count, in seconds, NaN where missing, shape (n,)."""

    def __len__(self) -> int:
        return len(self.records)


def pieces_of(records: Sequence[Source], most: int) -> Iterator[tuple[bytes, int]]:
    """Encode records of a partition in batches of at most ``most`` bytes where they have several;
    yield each with the number of records up to its end."""
    waiting = [
        (first, min(first + MOST_RECORDS, len(records)))
        for first in range(0, len(records), MOST_RECORDS)
    ][::-1]
    while waiting:
        first, last = waiting.pop()
        data = _encoded(records[first:last])
        if last - first < 2 or len(data) <= most:
            yield data, last
            continue
        half = (first + last) // 2
        waiting += [(half, last), (first, half)]


def _encoded(records: Sequence[Source]) -> bytes:
    first = records[0]
    written: list[Written] = [  # names of headers need not be valid UTF-8
        (
            record.offset, record.timestamp, record.key, record.value,
            [(name.encode("utf-8", "surrogateescape"), value) for name, value in record.headers],
        )
        for record in records
    ]  # fmt: skip
    head = _DeferredHead(1, first.topic, first.partition, written)
    return snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), {})


def times_of(records: Sequence[Any]) -> NDArray[np.float64]:
    """Times of records in seconds, NaN where missing."""
    milliseconds = np.array([record.timestamp for record in records], np.float64)
    return np.where(milliseconds >= 0, milliseconds / 1000, np.nan)


TimesOf = Callable[[Sequence[Any]], NDArray[np.float64]]
"""Returns the times of records that count."""


def read_deferred(
    data: bytes, latest: float = np.inf, times_of: TimesOf = times_of
) -> DeferredBatch:
    """Decode a deferred batch, its times, by ``times_of``, capped at ``latest``.

    Raises
    ------
    SnapshotMismatch
        The bytes are truncated, corrupt, of another version or of another kind.
    """
    head, _ = snapshot.of_kind(data, "deferred", "deferred batch", _DeferredHead)
    offsets = np.array([record[0] for record in head.records], np.int64)
    if not len(offsets) or offsets[0] < 0 or (np.diff(offsets) <= 0).any():
        raise SnapshotMismatch("snapshot: of a deferred batch: the order of records")
    records = [
        Record(
            head.topic, head.partition, offset, timestamp, key, value,
            [(name.decode("utf-8", "surrogateescape"), value) for name, value in headers],
        )
        for offset, timestamp, key, value, headers in head.records
    ]  # fmt: skip
    return DeferredBatch(records, np.minimum(times_of(records), latest))
