"""States: written by the learner for the processes that correct, and for the next learner.

They are in one compacted topic: correctors and index in partition 0, the learner's own memory in
partition 1, in as many records as it needs. A state is written in one transaction; its number is
the offset of its index, which comes last.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.learner.model_name import Name
from stream_can.learner.switch import CorrectionSwitch

__all__ = [
    "CORRECTORS",
    "INDEX",
    "MEMORY",
    "Begin",
    "Index",
    "LanePlace",
    "Memory",
    "Play",
    "begin_key",
    "corrector_key",
    "memory_key",
    "read_index",
    "read_memory",
]  # fmt: skip

CORRECTORS, MEMORY = 0, 1
"""Partitions of the topic."""
INDEX = b"index"
"""Key of the index."""


class LanePlace(msgspec.Struct, array_like=True, frozen=True):
    """Position of the corrector of a model and version."""

    model: str | None
    version: str | None
    offset: int
    after: str | None = None
    """The version from which it was started."""

    @property
    def name(self) -> Name:
        """Model and version."""
        return self.model, self.version


class Begin(msgspec.Struct, array_like=True, frozen=True):
    """Position of the initial corrector of a model; of the common one where the model is None."""

    model: str | None
    offset: int


class Index(msgspec.Struct):
    """Index of a state: everything that correcting needs."""

    index: Literal[1]
    mark: str
    """Random identifier of the application's beginning."""
    identity: dict[str, Any]
    """Settings that determine the meaning of what is learned."""
    inputs: dict[int, int]
    """Next offset to learn of each input partition."""
    lanes: list[LanePlace]
    begins: list[Begin]
    listed: list[str]
    """Models with a table; with ``only_listed`` all others are refused."""
    only_listed: bool
    max_lanes: int
    full: bool
    """Whether no model or version may begin now, because too many began within an hour."""
    switch: CorrectionSwitch
    """Whether workers correct."""
    memory: list[int]
    """Positions of the pieces of the memory, in order."""
    time: float
    """When it was written, in seconds since 1970."""
    until: float | None = None
    """Time up to which all input is learned, in seconds, beyond which the clock does not go; None
    for all."""
    former: list[str] = []
    """Marks before the last times it was started over: workers send under them for a moment."""
    moved: list[int] = []
    """Input partitions of which ``inputs`` says the end at a time, since what was sent of them was
    deleted, until something of them is learned again."""

    @property
    def answered(self) -> dict[int, int]:
        """Next offset to learn of each input partition where it says what was learned."""
        return {p: at for p, at in self.inputs.items() if p not in self.moved}

    def to_bytes(self) -> bytes:
        """Encode the index, versioned and checksummed."""
        return snapshot.encode(msgspec.to_builtins(self), {})


class Play(NamedTuple):
    """Recent rows that were played together between two states."""

    rows: int
    """Number of rows played."""
    ends: dict[int, int]
    """Next offset of each partition of sent batches that moved."""
    played: tuple[tuple[int, int], ...] = ()
    """Where the learner corrected some of the rows: partition and offset of the sent batches in
    which it told of all of them, in order."""


class Memory(NamedTuple):
    """Memory of a learner: its knowledge beside the correctors."""

    learner: bytes
    """The memory of :meth:`Learner.state`."""
    number: int
    """Number of the next row."""
    sent: dict[int, int]
    """Next offset of each partition of sent batches."""
    labels: dict[str, dict[int, int]]
    """Next offset of each partition of each topic of labels."""
    play_starts: dict[int, int]
    """First offset of each partition of sent batches that ``plays`` cover."""
    plays: Sequence[Play]
    """The last plays, as far as they contain recent predictions."""
    times: dict[int, list[float]]
    """The last known row times of each partition of sent batches, in seconds; see
    :func:`stream_can.kafka.learned_time.progress`."""
    topics: dict[str, str]
    """Ids of the topics to which the offsets belong, by name."""
    within: dict[int, int] = {}  # noqa: RUF012
    """Where the batch at the next offset of a partition is a deferred one, of which some records
    were played: the number of these."""

    def to_bytes(self) -> bytes:
        """Encode the memory, compressed and checksummed."""
        partitions = sorted(self.sent)
        at = {p: k for k, p in enumerate(partitions)}
        moved = np.zeros((len(self.plays), len(partitions)), np.int32)
        last = dict(self.play_starts)
        for i, play in enumerate(self.plays):
            for p, end in play.ends.items():
                moved[i, at[p]] = end - last.get(p, 0)
                last[p] = end
        head = _MemoryHead(
            1,
            self.sent,
            self.labels,
            self.play_starts,
            self.number,
            self.learner,
            self.times,
            self.topics,
            {i: list(play.played) for i, play in enumerate(self.plays) if play.played},
            self.within,
        )
        arrays: dict[str, NDArray[Any]] = {
            "rows": np.array([play.rows for play in self.plays], np.int32), "moved": moved,
        }  # fmt: skip
        data = snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), arrays)
        return zlib.compress(data, 1)


class _MemoryHead(msgspec.Struct):
    memory_of: Literal[1]
    sent: dict[int, int]
    labels: dict[str, dict[int, int]]
    begun: dict[int, int]
    number: int
    learner: bytes
    times: dict[int, list[float]]
    topics: dict[str, str]
    played: dict[int, list[tuple[int, int]]] = {}
    within: dict[int, int] = {}


def read_index(data: bytes) -> Index:
    """Decode :meth:`Index.to_bytes`; SnapshotMismatch where the bytes are invalid."""
    return snapshot.of_kind(data, "index", "index of a state", Index)[0]


def read_memory(data: bytes) -> Memory:
    """Decode :meth:`Memory.to_bytes`; SnapshotMismatch where the bytes are invalid."""
    try:
        data = zlib.decompress(data)
    except zlib.error as error:
        raise SnapshotMismatch(f"snapshot: memory: {error}") from None
    head, arrays = snapshot.of_kind(data, "memory_of", "memory of a state", _MemoryHead)
    partitions, last = sorted(head.sent), dict(head.begun)
    plays = list[Play]()
    every = zip(arrays["rows"].tolist(), arrays["moved"].tolist(), strict=True)
    for i, (rows, moved) in enumerate(every):
        ends = {}
        for p, by in zip(partitions, moved, strict=True):
            if by:
                last[p] = ends[p] = last.get(p, 0) + by
        plays.append(Play(rows, ends, tuple(head.played.get(i, ()))))
    return Memory(
        head.learner, head.number, head.sent, head.labels, head.begun, plays, head.times,
        head.topics, head.within,
    )  # fmt: skip


def memory_key(piece: int) -> bytes:
    """Key of a piece of the memory, which are numbered from 0."""
    return b"memory %d" % piece


def corrector_key(name: Name) -> bytes:
    """Key of the corrector of a model and version."""
    return b"corrector " + msgspec.json.encode(name)


def begin_key(model: str | None) -> bytes:
    """Key of the initial corrector of a model."""
    return b"begin " + msgspec.json.encode(model)
