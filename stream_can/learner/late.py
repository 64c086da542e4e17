"""Labels that come later than their predictions, or before them."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stream_can.learner.kinds import Id
from stream_can.learner.lane import Name, length_of

__all__ = ["Held", "HeldLabels", "LateLabel"]

MOST_HELD = 100_000
"""Labels that wait for their prediction; the oldest is given up for another."""
MOST_ID_BYTES = 32 << 20
"""Most bytes of ids of labels that wait, and of those that came without their prediction."""


class LateLabel(msgspec.Struct, gc=False):
    """A label among the rows of :meth:`Learner.play`."""

    id: Any
    """A text, an integer or bytes, of its prediction; None where nothing says which it is."""
    label: Any
    """The name of its class."""
    due: int = 0
    """Before which of the rows it comes; their number is behind the last."""
    of: int | None = None
    """The row that brings it as its own label, right behind which it comes."""
    row: Any = None
    """The classifier's own prediction, shape (m,), where the label brings it."""
    columns: dict[str, Any] | None = None
    """Values of the declared columns that it brings beside the row."""
    model: str | None = None
    version: str | None = None
    time: float | None = None
    """When it was made, in seconds."""


class Held(msgspec.Struct, array_like=True):
    """A label that came before its prediction."""

    time: Annotated[float, Meta(ge=-1e300, le=1e300)]
    id: Any
    label: Any
    lane: Name | None
    number: int = 0
    """In which order they came."""


class HeldLabels:
    """The labels that wait for their prediction."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[Id, Name | None], Held] = OrderedDict()
        self._number = self._bytes = 0
        self._due: list[tuple[float, int, Held]] = []
        """A heap of those by time, also of some that are held no more."""

    def __len__(self) -> int:
        return len(self._held)

    def add(self, one: Held) -> None:
        """Hold a label."""
        one.number = self._number
        self._number += 1
        self._held[one.id, one.lane] = one
        heapq.heappush(self._due, (one.time, one.number, one))
        if len(self._due) > 2 * len(self._held) + 1000:  # mostly of those that were taken
            self._due = [(one.time, one.number, one) for one in self._held.values()]
            heapq.heapify(self._due)
        self._bytes += length_of(one.id)

    def take_excess(self) -> Held | None:
        """The oldest label, where there are too many, which waits no longer."""
        if len(self._held) <= MOST_HELD and self._bytes <= MOST_ID_BYTES:
            return None
        return self._pop(next(iter(self._held)))

    def _pop(self, key: tuple[Id, Name | None]) -> Held:
        one = self._held.pop(key)
        self._bytes -= length_of(one.id)
        return one

    def has(self, id: Id, lane: Name | None) -> bool:
        """Whether a label of this id is held that names just this lane, or none."""
        return (id, lane) in self._held

    def take(self, id: Id, lane: Name) -> Held | None:
        """The first label that waits for a prediction of this id, which waits no longer."""
        if not self._held:
            return None
        model, version = lane
        names = {None, lane, (model, None), (None, version)}
        found = [one for name in names if (one := self._held.get((id, name))) is not None]
        one = min(found, key=lambda one: one.number, default=None)
        return None if one is None else self._pop((one.id, one.lane))

    def take_due(self, before: float) -> Held | None:
        """The oldest label, where it is of a time before this one."""
        while self._due:
            time, _, one = self._due[0]
            waits = self._held.get((one.id, one.lane)) is one  # else it was taken meanwhile
            if waits and time >= before:
                return None
            heapq.heappop(self._due)
            if waits:
                return self._pop((one.id, one.lane))
        return None

    def all(self) -> list[Held]:
        """Labels that wait, the oldest first."""
        return [msgspec.structs.replace(one, number=0) for one in self._held.values()]
