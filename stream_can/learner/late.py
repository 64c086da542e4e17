"""Labels that arrive after their predictions, or before them."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stream_can.learner.kinds import Id
from stream_can.learner.lane import Name
from stream_can.learner.recent import length_of

__all__ = ["Held", "HeldLabels", "LateLabel"]

MOST_HELD = 100_000
"""Maximum number of held labels; beyond it the oldest is released."""
MOST_ID_BYTES = 32 << 20
"""Maximum bytes of ids of held labels, and of labels whose prediction is unknown."""


class LateLabel(msgspec.Struct, gc=False):
    """A label among the rows of :meth:`Learner.play`."""

    id: Any
    """Id of its prediction: text, integer or bytes; None where unknown."""
    label: Any
    """Name of the class."""
    due: int = 0
    """Index of the row before which it arrives; the number of rows for after the last."""
    of: int | None = None
    """Index of the row to which it belongs, where it arrived with it."""
    row: Any = None
    """The classifier's own prediction, shape (m,), where the label carries it."""
    columns: dict[str, Any] | None = None
    """Column values that came with ``row``."""
    model: str | None = None
    version: str | None = None
    time: float | None = None
    """Time of the label in seconds."""


class Held(msgspec.Struct, array_like=True):
    """A label that arrived before its prediction."""

    time: Annotated[float, Meta(ge=-1e300, le=1e300)]
    id: Any
    label: Any
    lane: Name | None
    n: int = 1
    """Number of labels in it: those of several labels a row may come apart."""
    number: int = 0
    """Order of arrival."""


class HeldLabels:
    """Labels that wait for their predictions."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[Id, Name | None], Held] = OrderedDict()
        self._number = self._bytes = 0
        self.n = 0
        """Number of held labels."""
        self._due: list[tuple[float, int, Held]] = []
        """A heap ordered by time; may contain labels that have been taken."""

    def __len__(self) -> int:
        return len(self._held)

    def add(self, one: Held) -> None:
        """Hold a label."""
        one.number = self._number
        self._number += 1
        self._held[one.id, one.lane] = one
        heapq.heappush(self._due, (one.time, one.number, one))
        if len(self._due) > 2 * len(self._held) + 1000:  # most are taken already
            self._due = [(one.time, one.number, one) for one in self._held.values()]
            heapq.heapify(self._due)
        self._bytes += length_of(one.id)
        self.n += one.n

    def add_to(self, one: Held, label: Any) -> None:
        """Add a label to a held one of the same id; ``label`` is both together."""
        one.label = label
        one.n += 1
        self.n += 1

    def take_excess(self) -> Held | None:
        """Remove and return the oldest label where there are too many."""
        if len(self._held) <= MOST_HELD and self._bytes <= MOST_ID_BYTES:
            return None
        return self._pop(next(iter(self._held)))

    def _pop(self, key: tuple[Id, Name | None]) -> Held:
        one = self._held.pop(key)
        self._bytes -= length_of(one.id)
        self.n -= one.n
        return one

    def get(self, id: Id, lane: Name | None) -> Held | None:
        """The label held for this id and exactly this lane, or for no lane in particular."""
        return self._held.get((id, lane))

    def take(self, id: Id, lane: Name) -> Held | None:
        """Remove and return the first held label for a prediction of this id."""
        if not self._held:
            return None
        model, version = lane
        names = {None, lane, (model, None), (None, version)}
        found = [one for name in names if (one := self._held.get((id, name))) is not None]
        one = min(found, key=lambda one: one.number, default=None)
        return None if one is None else self._pop((one.id, one.lane))

    def take_due(self, before: float) -> Held | None:
        """Remove and return the oldest label if it is older than a time."""
        while self._due:
            time, _, one = self._due[0]
            waits = self._held.get((one.id, one.lane)) is one  # otherwise taken meanwhile
            if waits and time >= before:
                return None
            heapq.heappop(self._due)
            if waits:
                return self._pop((one.id, one.lane))
        return None

    def all(self) -> list[Held]:
        """Held labels, oldest first."""
        return [msgspec.structs.replace(one, number=0) for one in self._held.values()]
