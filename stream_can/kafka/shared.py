"""Shared records: what was learned up to an offset of the log, for a start not to fold it all.

They lie in the state topic beside the positions of its partitions. One is a function of its offset:
whoever writes it writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.kafka.client.readers import Readers
from stream_can.messages.naming import LaneName
from stream_can.stream.replica import Begun, Replica
from stream_can.stream.terms import Terms
from stream_can.trust.sets import PredictionSets

__all__ = [
    "SharedHead", "head", "is_shared", "key", "nearest_first", "newest_shared",
    "pack", "records", "unpack",
]  # fmt: skip

FORMAT = 2
NEAR = (1_000, 20_000)
"""So many offsets from the end are looked through first; only then the whole partition."""


class StoredLane(msgspec.Struct, array_like=True):
    """A lane, and where its corrector is."""

    model: str
    version: str
    begun: int
    last: int
    after: str | None
    labels: float
    at: int
    """The offset of the log in the lane's record."""

    @property
    def name(self) -> LaneName:
        """Model and version."""
        return LaneName(self.model, self.version)


class LaneHead(msgspec.Struct, omit_defaults=True):
    """The record of a lane: its corrector, and the offset of the log whose fold it is."""

    lane: tuple[str, str]
    learned: int
    corrector: bytes
    sets: bytes | None = None
    """Prediction sets, where outputs have them."""


class SharedHead(msgspec.Struct, omit_defaults=True):
    """A corrector, and the offset of the log whose fold it is."""

    shared: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    folded_to: Annotated[int, Meta(ge=0)] = msgspec.field(name="learned")
    corrector: bytes
    lanes: list[StoredLane] = []
    """That with the oldest last entry first; the corrector of each is in a record of its own."""
    times: list[int] = []
    terms: Terms | None = None
    """Of the log."""
    sets: bytes | None = None
    """Prediction sets, where outputs have them."""


def key(learn: object, log_partition: int) -> bytes:
    """The key of a log partition's shared records, by the setting ``learn``.

    None is the key of positions, ``<input>-<partition>``: no topic has a slash in its name.
    """
    return b"shared/%d" % log_partition if learn == "apart" else b"shared"


def is_shared(key: bytes) -> bool:
    """Whether a record of the state topic is a shared one."""
    return key == b"shared" or key.startswith(b"shared/")


def lane_key(log_partition: int, name: LaneName) -> bytes:
    """The key of a lane's records: the names are percent-encoded."""
    return "/".join(
        ["shared", str(log_partition), *(quote(part, safe="") for part in name)]
    ).encode()


def pack_lane(name: LaneName, lane: Begun, at: int) -> bytes:
    """The record of a lane, folded up to an offset of the log."""
    head = LaneHead((name.model, name.version), at, lane.corrector.to_bytes(), _stored(lane.sets))
    return snapshot.encode(msgspec.to_builtins(head), {})


def pack(replica: Replica, at: Mapping[LaneName, int] = MappingProxyType({})) -> bytes:
    """The shared record of a replica; ``at`` are the offsets in the records of its lanes."""
    corrector, terms = replica.corrector, replica.terms
    said = None if terms == Terms.of(corrector) else terms
    lanes = [
        StoredLane(*name, one.begun, one.last, one.after, one.labels, at[name])
        for name, one in replica.lanes.items()
    ]
    says = SharedHead(
        FORMAT, replica.offset, corrector.to_bytes(), lanes, list(replica.times), said,
        _stored(replica.sets()),
    )  # fmt: skip
    return snapshot.encode(msgspec.to_builtins(says), {})


def _stored(sets: PredictionSets | None) -> bytes | None:
    return None if sets is None else sets.to_bytes()


def _restored(sets: bytes | None) -> PredictionSets | None:
    return None if sets is None else PredictionSets.from_bytes(sets)


def head(data: bytes) -> SharedHead:
    """What a shared record says; SnapshotMismatch where it is none, or of another release."""
    return snapshot.typed(snapshot.decode(data).head, SharedHead)


def records(
    replica: Replica, before: Mapping[LaneName, int], partition: int = 0
) -> tuple[dict[bytes, bytes | None], dict[LaneName, int]]:
    """The records of lanes to write with the next shared record, and the offsets in all of them.

    Those are of the lanes that have learned since their last one; None where a lane has gone.

    Parameters
    ----------
    before
        The offsets in the lanes' records that are there.
    partition
        Of the log, which is in their keys.
    """
    lanes = replica.lanes
    changed = {name for name, one in lanes.items() if one.last >= before.get(name, -1)}
    at = {name: replica.offset if name in changed else before[name] for name in lanes}
    found: dict[bytes, bytes | None] = {
        lane_key(partition, name): pack_lane(name, lanes[name], at[name])
        for name in at
        if name in changed
    }
    found |= {lane_key(partition, name): None for name in before if name not in lanes}
    return found, at


def unpack(
    data: bytes, of_lanes: Mapping[bytes, bytes] = MappingProxyType({}), partition: int = 0
) -> Replica:
    """The replica that a shared record makes.

    Parameters
    ----------
    of_lanes
        The records of its lanes, by key.
    partition
        That of the log, which is in their keys.

    Raises
    ------
    SnapshotMismatch
        The bytes are no such record, corrupt, or of a newer release; or that of a lane is missing.
    """
    says = head(data)
    lanes: dict[LaneName, Begun] = {}
    for one in says.lanes:
        own = of_lanes.get(lane_key(partition, one.name))
        if own is None:
            raise SnapshotMismatch(f"snapshot: the record of lane {one.name} is not there")
        of = snapshot.typed(snapshot.decode(own).head, LaneHead)
        if (*of.lane, of.learned) != (*one.name, one.at):
            raise SnapshotMismatch(f"snapshot: the record of lane {one.name} is of another offset")
        corrector = Corrector.from_bytes(of.corrector)
        sets = _restored(of.sets)
        lanes[one.name] = Begun(corrector, one.begun, one.last, one.after, one.labels, sets)
    base = Corrector.from_bytes(says.corrector)
    sets = _restored(says.sets)
    return Replica(base, says.folded_to, says.terms, lanes, says.times, sets)


def stored(readers: Readers, state: str, partition: int, data: bytes) -> Replica:
    """:func:`unpack` with the records of its lanes, read from a partition of the state topic."""
    wanted = {lane_key(partition, one.name) for one in head(data).lanes}
    begin, end = readers.span(state, partition)
    found: dict[bytes, bytes] = {}
    for start in nearest_first(begin, end):
        if wanted <= found.keys():
            break
        found = {
            record.key: bytes(record.value)
            for record in readers.read(state, partition, start, end)
            if record.key in wanted and record.value is not None
        }
    return unpack(data, found, partition)


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
