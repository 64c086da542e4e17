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
from stream_can.stream.terms import Terms

__all__ = ["SharedHead", "is_shared", "key", "nearest_first", "newest_shared", "pack", "unpack"]

FORMAT, WITHOUT_IDENTITY = 2, 1
NEAR = (1_000, 20_000)
"""So many offsets from the end are looked through first; only then the whole partition."""


class SharedHead(msgspec.Struct, omit_defaults=True):
    """A corrector, and the offset of the log whose fold it is."""

    shared: Annotated[int, Meta(ge=1, le=FORMAT)]
    folded_to: Annotated[int, Meta(ge=0)] = msgspec.field(name="learned")
    corrector: bytes
    terms: Terms | None = None
    """Of the log. In format 1 release 0.2 does not look at them; it stops at format 2, as it would
    at the entries behind it."""


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
    number = WITHOUT_IDENTITY if replica.terms.app is None else FORMAT
    corrector, terms = replica.corrector, replica.terms
    said = None if terms == Terms.of(corrector) else terms
    head = SharedHead(number, replica.offset, corrector.to_bytes(), said)
    # So that release 0.2 says what is the matter: its own words for a newer number here do not.
    version = snapshot.SINCE_0_3 if number == FORMAT else snapshot.VERSION
    return snapshot.encode(msgspec.to_builtins(head), {}, version)


def unpack(data: bytes) -> Replica:
    """The replica that a shared record makes.

    Raises
    ------
    SnapshotMismatch
        The bytes are no such record, corrupt, or of a newer release.
    """
    head = snapshot.typed(snapshot.decode(data).head, SharedHead)
    return Replica(Corrector.from_bytes(head.corrector), head.folded_to, head.terms)


def newest_shared(readers: Readers, state: str, partition: int, wanted: bytes) -> bytes | None:
    """The newest committed shared record of a key in a partition of the state topic."""
    begin, end = readers.span(state, partition)
    for start in nearest_first(begin, end):
        value = None
        for record in readers.read(state, partition, start, end):
            if record.key == wanted:
                value = record.value
        if value is not None:
            return bytes(value)
    return None


def nearest_first(begin: int, end: int) -> list[int]:
    """The offsets from which to look for the newest records of a partition, one after the other."""
    return list(dict.fromkeys((*(max(begin, end - near) for near in NEAR), begin)))
