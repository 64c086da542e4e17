"""What a snapshot of a learner holds, written and read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.learner.kinds import Given, Kind, Reason, Recent
from stream_can.learner.lane import TOGETHER, Lane
from stream_can.learner.late import Held
from stream_can.multilabel import MultiLabelCorrector

__all__ = ["Head", "LaneHead", "corrector", "opened", "pending", "recents", "refused", "require"]

Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Count = Annotated[int, Meta(ge=0, le=2**62)]


class LaneHead(msgspec.Struct):
    """What is said of a model and version beside its arrays."""

    lane: tuple[str | None, str | None]
    corrector: bytes
    asks: bytes | None
    alarm: bytes | None
    ids: list[Any]
    columns: list[Given | None] | None
    known: list[Any]
    """Of each recent prediction its label."""
    requests: list[tuple[Any, Reason]]
    pending: list[tuple[bytes, Any]]


class Head(msgspec.Struct):
    """What a snapshot says beside its arrays."""

    learner: Literal[1]
    start: bytes
    recent_mb: float
    ask: float | None
    label_wait: float
    clock: Finite | None
    number: Count
    lanes: list[LaneHead]
    held: list[Held]
    changed: Count


def written(head: Head, lanes: Iterable[Lane]) -> bytes:
    """All of it, versioned and checksummed."""
    arrays = {}
    for k, lane in enumerate(lanes):
        recent, kind = list(lane.recent.values()), lane.kind
        data = np.frombuffer(b"".join([one.blob for one in recent]), "<f4")
        arrays[f"recent.{k}"] = data.reshape(len(recent), kind.width // 4)
        numbers = [(one.number, one.fair) for one in recent]
        arrays[f"numbers.{k}"] = np.array(numbers, np.int64).reshape(-1, 2)
        alarm = lane.judged.alarm
        head.lanes.append(
            LaneHead(
                lane.name, kind.corrector.to_bytes(),
                None if lane.asks is None else lane.asks.to_bytes(),
                None if alarm is None else alarm.to_bytes(), list(lane.recent),
                [one.columns for one in recent] if kind.columns else None,
                [one.known for one in recent], list(lane.requests.items()), lane.pending,
            )
        )  # fmt: skip
        arrays[f"raw.{k}"] = lane.judged.raw.sums()
        arrays[f"sent.{k}"] = lane.judged.sent.sums()
    return snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), arrays)


def opened(data: bytes) -> tuple[Head, dict[str, NDArray[Any]]]:
    """What :func:`written` wrote; SnapshotMismatch where it did not."""
    return snapshot.of_kind(data, "learner", "learner", Head)


@contextmanager
def refused() -> Iterator[None]:
    """What is wrong inside, as SnapshotMismatch."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, SnapshotMismatch):
            raise
        raise SnapshotMismatch(f"snapshot: of a learner: {error}") from None


def require(fits: Any, what: str) -> None:
    """ValueError where something does not fit."""
    if not fits:
        raise ValueError(what)


def corrector(
    data: bytes,
    classes: int | Iterable[Hashable] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Corrector | MultiLabelCorrector:
    """The corrector of a snapshot, of its kind."""
    more = dict(settings or {})
    if snapshot.is_of_kind(data, "multilabel"):
        return MultiLabelCorrector.from_bytes(data, classes, **more)
    return Corrector.from_bytes(data, classes, **more)


def recents(
    head: LaneHead,
    k: int,
    arrays: Mapping[str, NDArray[Any]],
    kind: Kind,
    stored: Kind,
    columns: int,
) -> Iterator[tuple[int, Recent]]:
    """The recent predictions of a model by their running numbers, which ascend; ValueError where
    they are none."""
    n = len(head.ids)
    data, numbers = arrays[f"recent.{k}"], arrays[f"numbers.{k}"]
    require(numbers.dtype == np.int64 and numbers.shape == (n, 2), "numbers")
    require((np.diff(numbers[:, 0], prepend=-1) > 0).all(), "their order")
    require(len(data) == n, "recent predictions")
    blobs, given = kind.load_blobs(data, stored), head.columns or [None] * n
    for id, texts, known, blob, (number, fair) in zip(
        head.ids, given, head.known, blobs, numbers.tolist(), strict=True
    ):
        require(texts is None or len(texts) == columns, "columns")
        yield number, Recent(id, number, 0, texts, -1, blob, bool(fair), kind.load_known(known))


def pending(head: LaneHead, kind: Kind) -> list[tuple[bytes, Any]]:
    """Labelled predictions that are not scored yet; ValueError where they are none."""
    require(len(head.pending) < TOGETHER, "scores")
    return [kind.load_pending(both, y) for both, y in head.pending]
