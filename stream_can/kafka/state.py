"""States: what a learner writes for those that correct, and for the learner after it.

They lie in one compacted topic: correctors and the index in partition 0, what the learner alone has
to know in partition 1. All of one state is one transaction, and its number is the offset of its
index, which comes last.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.learner.lane import Name
from stream_can.messages.records import Header

__all__ = [
    "CORRECTORS", "INDEX", "MARK_HEADER", "MEMORY", "NEXT_HEADER", "STATE_HEADER",
    "Begin", "Index", "LanePlace", "Memory", "Play",
    "begin_key", "corrector_key", "header_of", "headers_by", "read_index", "read_memory",
]  # fmt: skip

CORRECTORS, MEMORY = 0, 1
"""The partitions of the topic."""
INDEX = b"index"
"""The key of the index; of the memory, too, in its own partition."""
STATE_HEADER, MARK_HEADER = "stream-can-state", "stream-can-mark"
"""Headers: by which state a record was made, and of which birth of the application it is."""
NEXT_HEADER = "stream-can-next"
"""The header of a sent batch: the next offset of the input. Of a stretch of dead letters and
tombstones a batch without rows says it."""


class LanePlace(msgspec.Struct, array_like=True, frozen=True):
    """Where the corrector of a model and version lies."""

    model: str | None
    version: str | None
    offset: int
    after: str | None = None
    """The version that it went on from."""

    @property
    def name(self) -> Name:
        """Model and version."""
        return self.model, self.version


class Begin(msgspec.Struct, array_like=True, frozen=True):
    """Where the corrector lies with which a model begins; None: all that have none of their own."""

    model: str | None
    offset: int


class Index(msgspec.Struct):
    """The index of a state: what correctors have to know."""

    index: Literal[1]
    mark: str
    """Drawn by lot where the application began."""
    identity: dict[str, Any]
    """The settings that say what is learned of what."""
    inputs: dict[int, int]
    """Partition of the input -> the next offset that is not learned."""
    lanes: list[LanePlace]
    begins: list[Begin]
    listed: list[str]
    """Models with a table; where ``only_listed`` all others are refused."""
    only_listed: bool
    max_lanes: int
    full: bool
    """Whether no model or version may begin now, since so many did within an hour."""
    memory: int
    """Where the memory lies."""
    time: float
    """When it was written, in seconds since 1970."""
    until: float | None = None
    """See :meth:`stream_can.kafka.behind.Behind.until`; None where nothing is left."""

    def to_bytes(self) -> bytes:
        """The index, versioned and checksummed."""
        return snapshot.encode(msgspec.to_builtins(self), {})


class Play(NamedTuple):
    """Rows that were played together between two states, as far as they are recent."""

    rows: int
    """How many were played."""
    ends: dict[int, int]
    """The next offset of each partition of sent batches, where it moved."""


class Memory(NamedTuple):
    """The memory of a learner: what it has to know beside the correctors."""

    learner: bytes
    """The memory of :meth:`Learner.state`."""
    number: int
    """Number of the next row."""
    sent: dict[int, int]
    """The next offset of each partition of sent batches."""
    labels: dict[int, int]
    """And of labels."""
    begun: dict[int, int]
    """From which offset of each partition of sent batches on ``plays`` has them."""
    plays: Sequence[Play]
    """The last ones, as far as recent predictions are of them."""
    times: dict[int, float]
    """Latest time of the rows of each partition of sent batches, in seconds."""

    def to_bytes(self) -> bytes:
        """The memory, compressed and checksummed."""
        partitions = sorted(self.sent)
        at = {p: k for k, p in enumerate(partitions)}
        moved = np.zeros((len(self.plays), len(partitions)), np.int32)
        last = dict(self.begun)
        for i, play in enumerate(self.plays):
            for p, end in play.ends.items():
                moved[i, at[p]] = end - last.get(p, 0)
                last[p] = end
        head = _MemoryHead(
            1, self.sent, self.labels, self.begun, self.number, self.learner, self.times
        )
        arrays: dict[str, NDArray[Any]] = {
            "rows": np.array([play.rows for play in self.plays], np.int32), "moved": moved,
        }  # fmt: skip
        data = snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), arrays)
        return zlib.compress(data, 1)


class _MemoryHead(msgspec.Struct):
    memory_of: Literal[1]
    sent: dict[int, int]
    labels: dict[int, int]
    begun: dict[int, int]
    number: int
    learner: bytes
    times: dict[int, float]


def read_index(data: bytes) -> Index:
    """The index that :meth:`Index.to_bytes` wrote; SnapshotMismatch where it did not."""
    return snapshot.of_kind(data, "index", "index of a state", Index)[0]


def read_memory(data: bytes) -> Memory:
    """The memory that :meth:`Memory.to_bytes` wrote; SnapshotMismatch where it did not."""
    try:
        data = zlib.decompress(data)
    except zlib.error as error:
        raise SnapshotMismatch(f"snapshot: memory: {error}") from None
    head, arrays = snapshot.of_kind(data, "memory_of", "memory of a state", _MemoryHead)
    partitions, last = sorted(head.sent), dict(head.begun)
    plays = list[Play]()
    for rows, moved in zip(arrays["rows"].tolist(), arrays["moved"].tolist(), strict=True):
        ends = {}
        for p, by in zip(partitions, moved, strict=True):
            if by:
                last[p] = ends[p] = last.get(p, 0) + by
        plays.append(Play(rows, ends))
    return Memory(head.learner, head.number, head.sent, head.labels, head.begun, plays, head.times)


def corrector_key(name: Name) -> bytes:
    """The key of a model's and version's corrector."""
    return b"corrector " + msgspec.json.encode(name)


def begin_key(model: str | None) -> bytes:
    """The key of that with which a model begins."""
    return b"begin " + msgspec.json.encode(model)


def headers_by(number: int, mark: str) -> list[Header]:
    """The headers of a sent batch: the state that corrected its rows, and of which birth of the
    application that is."""
    return [(STATE_HEADER, b"%d" % number), (MARK_HEADER, mark.encode())]


def header_of(headers: Sequence[tuple[str, bytes | None]], name: str) -> str | None:
    """The text of a header; None where there is none."""
    found: Mapping[str, bytes | None] = dict(headers)
    value = found.get(name)
    return None if value is None else value.decode(errors="replace")
