"""Persistence: the state of an alarm in bytes, and copies of it."""

from __future__ import annotations

from typing import Annotated, Any, Self

import msgspec
import numpy as np
from msgspec import Meta

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.trust.change_tests import SUMS, ChangeTests
from stream_can.trust.episode import Episode
from stream_can.trust.locking import one_at_a_time

MOST_EPISODES = 20


class AlarmHead(msgspec.Struct):
    """Head of a snapshot: everything but its arrays."""

    alarm: Annotated[int, Meta(ge=1, le=1)]
    level: Annotated[float, Meta(gt=0, lt=1)]
    n: Annotated[int, Meta(ge=0, le=2**53)]
    restarted: Annotated[int, Meta(ge=0, le=2**53)]
    looked: Annotated[int, Meta(ge=0, le=2**53)]
    episodes: list[Episode]


class AlarmPersistence(ChangeTests):
    """The part of an `Alarm` that is saved and loaded."""

    def __init__(self, level: float) -> None:
        super().__init__()
        self.level = level

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """Serialise the state, versioned and checksummed."""
        head = AlarmHead(1, self.level, self.n, self._restarted, self._looked, self.episodes)
        fresh = [np.column_stack(starts) for starts in self._fresh]
        arrays = self._arrays() | {"fresh": np.concatenate([np.zeros((0, SUMS + 2)), *fresh])}
        return snapshot.encode(msgspec.to_builtins(head), arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Load :meth:`to_bytes`; the alarm continues as if it had never stopped.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, or of another version or kind.
        """
        head, arrays = snapshot.of_kind(data, "alarm", "alarm", AlarmHead)
        self = cls(head.level)
        self.n, self._restarted, self._looked = head.n, head.restarted, head.looked
        if not head.restarted <= head.looked <= head.n or len(head.episodes) > MOST_EPISODES:
            raise SnapshotMismatch("snapshot: an alarm's numbers of labels")
        if any(len(episode.before) != 4 or len(episode.after) != 4 for episode in head.episodes):
            raise SnapshotMismatch("snapshot: an alarm's episodes")
        self.episodes = head.episodes
        starts = len(arrays.get("starts", ()))
        shapes = {"starts": (starts,), "before": (starts, SUMS), "times": (starts,)}
        for name, expected in self._arrays().items():
            array = arrays.get(name)
            if (
                array is None
                or array.dtype != expected.dtype
                or array.shape != shapes.get(name, expected.shape)
            ):
                raise SnapshotMismatch(f"snapshot: an alarm without its {name}")
            if name not in ("times", "bounds") and not np.isfinite(array).all():
                raise SnapshotMismatch(f"snapshot: {name} of an alarm out of range")
            setattr(self, f"_{name}", array.copy())
        fresh = arrays.get("fresh")
        if fresh is None or fresh.dtype != np.float64 or fresh.shape[1:] != (SUMS + 2,):
            raise SnapshotMismatch("snapshot: an alarm without its fresh starts")
        if not np.isfinite(fresh[:, :-1]).all() or not (abs(fresh[:, 0]) < 2.0**53).all():
            raise SnapshotMismatch("snapshot: fresh starts of an alarm out of range")
        if len(fresh):
            numbers = fresh[:, 0].astype(np.int64)
            self._fresh = [(numbers, fresh[:, 1:-1].copy(), fresh[:, -1].copy())]
        start_numbers = np.append(self._starts, fresh[:, 0])
        if (
            not (np.diff(start_numbers) > 0).all()
            or not ((start_numbers >= 0) & (start_numbers < head.n + 1)).all()
        ):
            raise SnapshotMismatch("snapshot: starts of an alarm")
        errors = np.concatenate([self._before[:, :2], fresh[:, 1:3], self._sums[None, :2]])
        labels = np.append(start_numbers, self.n - self._restarted)
        new_errors, new_labels = np.diff(errors, axis=0, prepend=0), np.diff(labels, prepend=0)
        if not ((new_errors >= 0) & (new_errors <= new_labels[:, None])).all():
            raise SnapshotMismatch("snapshot: more errors of an alarm than labels")
        return self

    @one_at_a_time
    def copy(self) -> Self:
        """Create an independent copy."""
        copied = type(self)(self.level)
        copied.n, copied._restarted, copied._looked = self.n, self._restarted, self._looked
        copied.episodes = [msgspec.structs.replace(episode) for episode in self.episodes]
        for name, array in self._arrays().items():
            setattr(copied, f"_{name}", array.copy())
        copied._fresh = [*self._fresh]  # its arrays are never written again
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)
