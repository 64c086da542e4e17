"""Read the newest state of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stream_can.errors import SnapshotMismatch
from stream_can.kafka.client.guards import DeniedError, RebuildError
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.state import CORRECTORS, INDEX, MEMORY, Index, Memory, read_index, read_memory
from stream_can.learner.model_name import Name

__all__ = ["StoredState", "memory_of", "newest_index", "newest_state"]

GONE = "parts of the newest state are gone: there is a newer one"


@dataclass
class StoredState:
    """A state read from its topic."""

    number: int
    index: Index
    memory: Memory
    lanes: dict[Name, bytes]
    begins: dict[str | None, bytes]


def newest_index(readers: Readers, topic: str) -> tuple[Any, Index] | None:
    """Return the record of the newest index and its content; None before the first state.

    Raises
    ------
    DeniedError
        It cannot be read, for example because a newer release wrote it.
    """
    if not readers.partitions(topic):
        raise DeniedError(f"topic {topic!r} does not exist, or may not be read")
    record = readers.last(topic, CORRECTORS, INDEX)
    if record is None:
        return None
    try:
        return record, read_index(record.value or b"")
    except SnapshotMismatch as error:
        raise DeniedError(f"offset {record.offset} of {topic}-{CORRECTORS}: {error}") from None


def memory_of(readers: Readers, topic: str, index: Index) -> Memory:
    """Return the learner's memory of the state that an index describes.

    Raises
    ------
    DeniedError
        It cannot be read.
    RebuildError
        A newer state superseded it meanwhile.
    """
    pieces = readers.read_all_at(topic, MEMORY, index.memory)
    if pieces.keys() != {*index.memory}:
        raise RebuildError(GONE)
    try:
        return read_memory(b"".join(pieces[at].value for at in index.memory))
    except SnapshotMismatch as error:
        where = f"offset {index.memory[0]} of {topic}-{MEMORY}"
        raise DeniedError(f"{where}: {error}") from None


def newest_state(readers: Readers, topic: str) -> StoredState | None:
    """Return the newest state of a topic; None before the first.

    Raises
    ------
    DeniedError
        It cannot be read.
    RebuildError
        A newer state superseded it meanwhile.
    """
    newest = newest_index(readers, topic)
    if newest is None:
        return None
    record, index = newest
    offsets = {place.offset for place in index.lanes} | {begin.offset for begin in index.begins}
    parts = readers.read_all_at(topic, CORRECTORS, offsets)
    if parts.keys() != offsets:
        raise RebuildError(GONE)
    return StoredState(
        record.offset,
        index,
        memory_of(readers, topic, index),
        {place.name: parts[place.offset].value for place in index.lanes},
        {begin.model: parts[begin.offset].value for begin in index.begins},
    )
