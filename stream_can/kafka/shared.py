"""Shared records: what was learned up to an offset of the log, for a start not to fold it all.

They lie in the state topic beside the positions of its partitions. One is a function of its offset:
whoever writes it writes the same bytes.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.kafka.client.readers import Readers
from stream_can.stream.replica import Replica

__all__ = ["Shared", "is_shared", "key", "nearest_first", "newest_shared", "pack", "unpack"]

FORMAT = 1
NEAR = (1_000, 20_000)
"""So many offsets from the end are looked through first; only then the whole partition."""


class Shared(msgspec.Struct):
    """A corrector, and the offset of the log whose fold it is."""

    shared: Annotated[int, Meta(ge=1, le=FORMAT)]
    learned: Annotated[int, Meta(ge=0)]
    corrector: bytes


def key(learn: str, log_partition: int) -> bytes:
    """The key of a log partition's shared records, by the setting ``learn``.

    None is the key of positions, ``<input>-<partition>``: no topic has a slash in its name.
    """
    return b"shared/%d" % log_partition if learn == "apart" else b"shared"


def is_shared(key: bytes) -> bool:
    """Whether a record of the state topic is a shared one."""
    return key == b"shared" or key.startswith(b"shared/")


def pack(replica: Replica) -> bytes:
    """The shared record of a replica."""
    return snapshot.encode(
        msgspec.to_builtins(Shared(FORMAT, replica.offset, replica.corrector.to_bytes())), {}
    )


def unpack(data: bytes) -> Replica:
    """The replica that a shared record makes.

    Raises
    ------
    SnapshotMismatch
        The bytes are no such record, corrupt, or of a newer release.
    """
    found = snapshot.typed(snapshot.decode(data).head, Shared)
    return Replica(Corrector.from_bytes(found.corrector), found.learned)


def newest_shared(readers: Readers, state: str, partition: int, wanted: bytes) -> bytes | None:
    """The newest committed shared record of a key in a partition of the state topic."""
    begin, end = readers.span(state, partition)
    for start in nearest_first(begin, end):
        found = None
        for record in readers.read(state, partition, start, end):
            if record.key == wanted:
                found = record.value
        if found is not None:
            return bytes(found)
    return None


def nearest_first(begin: int, end: int) -> list[int]:
    """The offsets from which to look for the newest records of a partition, one after the other."""
    return list(dict.fromkeys((*(max(begin, end - near) for near in NEAR), begin)))
