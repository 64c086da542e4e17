"""Snapshots of a learner: content, encoding, decoding."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.learner.kinds import Kind, Unscored
from stream_can.learner.late import Held, Weight
from stream_can.learner.model_name import Name
from stream_can.learner.model_version import TOGETHER, ModelVersion
from stream_can.row_kinds import kind_of_snapshot, read_snapshot


class State(NamedTuple):
    """A learner without the rows of its recent predictions."""

    start: bytes
    """Snapshot of the initial corrector."""
    correctors: dict[Name, bytes]
    """Snapshots of the models' correctors."""
    memory: bytes
    """The learner's memory beside the correctors."""
    names: Sequence[Name]
    """The models and versions."""


Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Count = Annotated[int, Meta(ge=0, le=2**62)]


class VersionHead(msgspec.Struct):
    """Head of a model and version: everything but its arrays."""

    lane: tuple[str | None, str | None]
    begun: Count
    last: Count
    after: str | None
    asks: bytes | None
    alarm: bytes | None
    pending: list[tuple[bytes, Any, Finite | None, Weight | None]]


class SavedHead(msgspec.Struct):
    """Head of a learner's memory: everything but its arrays."""

    memory: Literal[1]
    recent_mb: float
    ask: float | None
    label_wait: float
    max_lanes: Annotated[int, Meta(ge=1)]
    dropped: Count
    clock: Finite | None
    number: Count
    """Number of the next row."""
    oldest: Count
    """Number of the first row that may be kept."""
    lanes: list[VersionHead]
    flags: bytes
    """Flags of the kept predictions, see `marks`."""
    known: list[tuple[Count, Any]]
    """The labels of those that have one, with their places."""
    held: list[Held]
    lone: list[tuple[int, tuple[str | None, str | None] | None, Any]]
    """Labels that arrived without their prediction, by the hashes of their ids."""
    changed: Count
    starts: list[tuple[tuple[str | None, str | None], bytes]]
    """Snapshots of the own initial correctors of models that have not begun."""


class _Whole(msgspec.Struct):
    """A learner in one piece."""

    learner: Literal[3]
    start: bytes
    correctors: list[tuple[tuple[str | None, str | None], bytes]]
    memory: bytes


def memory(head: SavedHead, versions: Iterable[ModelVersion]) -> bytes:
    """Encode a learner's memory beside its correctors, versioned and checksummed."""
    arrays = {}
    for k, version in enumerate(versions):
        alarm = version.judged.alarm
        head.lanes.append(
            VersionHead(
                version.name,
                version.first,
                version.last,
                version.started_from,
                None if version.asks is None else version.asks.to_bytes(),
                None if alarm is None else alarm.to_bytes(),
                [*version.pending],
            )
        )
        arrays[f"raw.{k}"] = version.judged.raw.sums()
        arrays[f"sent.{k}"] = version.judged.sent.sums()
    return snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), arrays)


def opened(data: bytes) -> tuple[SavedHead, dict[str, NDArray[Any]]]:
    """Decode :func:`memory`; SnapshotMismatch where the bytes are invalid."""
    return snapshot.of_kind(data, "memory", "memory of a learner", SavedHead)


def joined(state: State, recent: Iterable[bytes], count: int) -> bytes:
    """Join a state and its sent batches, so many."""
    head = _Whole(3, state.start, list(state.correctors.items()), state.memory)
    fields = msgspec.to_builtins(head, builtin_types=(bytes,))
    return snapshot.encode_pieces(fields, recent, count)


def parts(data: bytes) -> tuple[State, list[memoryview]]:
    """Decode :func:`joined`; SnapshotMismatch where the bytes are invalid."""
    head, _ = read_snapshot(data, "learner", _Whole)
    correctors = dict(head.correctors)
    state = State(head.start, correctors, head.memory, list(correctors))
    return state, snapshot.pieces_of(data)


@contextmanager
def refused() -> Iterator[None]:
    """Turn errors of the content into SnapshotMismatch."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, SnapshotMismatch):
            raise
        raise SnapshotMismatch(f"snapshot: of a learner: {error}") from None


def require(condition: Any, subject: str) -> None:
    """Raise ValueError where a condition is not met."""
    if not condition:
        raise ValueError(subject)


def corrector(
    data: bytes,
    classes: int | Iterable[Hashable] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """Restore the corrector of a snapshot, of whichever kind."""
    return kind_of_snapshot(data).restored(data, classes, settings or {})


def start_in(data: bytes) -> bytes:
    """The snapshot of the initial corrector in that of a learner; a corrector's itself."""
    head = snapshot.decode(data).head
    return bytes(head["start"]) if "learner" in head else data


def pending(head: VersionHead, kind: Kind) -> list[Unscored]:
    """Restore unscored predictions; ValueError where they are invalid."""
    require(len(head.pending) < TOGETHER, "scores")
    return [kind.load_pending(Unscored(*fields)) for fields in head.pending]
