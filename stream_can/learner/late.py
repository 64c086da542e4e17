"""Labels that arrive after their predictions, or before them."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stream_can.learner.kinds import Given, Id, Kind
from stream_can.learner.model_name import Name
from stream_can.learner.recent import length_of
from stream_can.method.arrays import LEAST_WEIGHT, MOST_WEIGHT
from stream_can.method.weights import weight_of_label

MOST_HELD = 100_000
"""Maximum number of held labels; beyond it the oldest is released."""
MOST_HELD_BYTES = 8 << 20
"""Maximum bytes of ids and labels that are held; beyond it the oldest is released."""
MOST_LONE, MOST_LONE_BYTES = 100_000, 4 << 20
"""Maximum number of labels without a prediction that are remembered, and of their bytes."""
Weight = Annotated[float, Meta(ge=LEAST_WEIGHT, le=MOST_WEIGHT)]
LONE_BYTES = 16
"""Bytes of one of them beside its label: a hash, and a place."""


def hash_of(id: Id) -> int:
    """Hash an id to 64 bits, the same on every machine: all that is kept of a label's id once it is
    known that no prediction has it."""
    tag, text = (
        (b"b", id) if isinstance(id, bytes)
        else (b"t", id.encode()) if isinstance(id, str)
        else (b"i", b"%d" % id)
    )  # fmt: skip
    return int.from_bytes(blake2b(tag + text, digest_size=8).digest(), "little")


def bytes_of(label: Any) -> int:
    """Length of a label as a snapshot stores it."""
    return len(label) if isinstance(label, str | bytes) else 8


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
    segments: dict[str, Any] | None = None
    """Column values that came with ``row``."""
    model: str | None = None
    version: str | None = None
    time: float | None = None
    """Time of the label in seconds."""
    weight: float | None = None
    """How many labels it counts as; None: one."""

    def require_weight(self, kind: Kind) -> None:
        """Raise ValueError for a weight that is none, or that such rows do not have."""
        if self.weight is not None:
            if not kind.has_weights:
                raise ValueError(f"weight: not of {kind.described}; leave it out")
            self.weight = weight_of_label(self.weight)  # numpy's is not saved


class CheckedLabel(msgspec.Struct, gc=False):
    """A label of a call, checked and in the adapter's terms."""

    late: LateLabel
    y: Any
    row: bytes | None
    given: Given | None
    stored: Any
    """The label as a snapshot stores it."""


class Held(msgspec.Struct, array_like=True):
    """A label that arrived before its prediction."""

    time: Annotated[float, Meta(ge=-1e300, le=1e300)]
    id: Any
    label: Any
    name: Name | None
    n: int = 1
    """Number of labels in it: those of multilabel rows may come apart."""
    number: int = 0
    """Order of arrival."""
    weight: Weight | None = None


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

    def hold(self, held: Held) -> None:
        """Hold a label."""
        held.number = self._number
        self._number += 1
        self._held[held.id, held.name] = held
        heapq.heappush(self._due, (held.time, held.number, held))
        if len(self._due) > 2 * len(self._held) + 1000:  # most are taken already
            self._due = [(held.time, held.number, held) for held in self._held.values()]
            heapq.heapify(self._due)
        self._bytes += length_of(held.id) + bytes_of(held.label)
        self.n += held.n

    def add_to(self, held: Held, label: Any) -> None:
        """Add a label to a held one of the same id; ``label`` is both together."""
        self._bytes += bytes_of(label) - bytes_of(held.label)
        held.label = label
        held.n += 1
        self.n += 1

    def take_excess(self) -> Held | None:
        """Remove and return the oldest label where there are too many."""
        if len(self._held) <= MOST_HELD and self._bytes <= MOST_HELD_BYTES:
            return None
        return self._pop(next(iter(self._held)))

    def _pop(self, key: tuple[Id, Name | None]) -> Held:
        held = self._held.pop(key)
        self._bytes -= length_of(held.id) + bytes_of(held.label)
        self.n -= held.n
        return held

    def get(self, id: Id, name: Name | None) -> Held | None:
        """The label held for this id and exactly this model and version, or for any."""
        return self._held.get((id, name))

    def take(self, id: Id, name: Name) -> Held | None:
        """Remove and return the first held label for a prediction of this id."""
        if not self._held:
            return None
        model, version = name
        names = {None, name, (model, None), (None, version)}
        matches = [held for of in names if (held := self._held.get((id, of))) is not None]
        held = min(matches, key=lambda held: held.number, default=None)
        return None if held is None else self._pop((held.id, held.name))

    def take_due(self, limit: float) -> Held | None:
        """Remove and return the oldest label if it is older than a time."""
        while self._due:
            time, _, held = self._due[0]
            waits = self._held.get((held.id, held.name)) is held  # otherwise taken meanwhile
            if waits and time >= limit:
                return None
            heapq.heappop(self._due)
            if waits:
                return self._pop((held.id, held.name))
        return None

    def all(self) -> list[Held]:
        """Held labels, oldest first."""
        return [msgspec.structs.replace(held, number=0) for held in self._held.values()]


class LoneLabels:
    """The latest labels that found no prediction, by the hashes of their ids: a later label of such
    an id is repeated."""

    def __init__(self) -> None:
        self._labels: OrderedDict[tuple[int, Name | None], Any] = OrderedDict()
        self._bytes = 0
        self._missing: dict[int, None] = {}
        """Python's hashes of ids, where this object was told of a label, oldest first."""
        self.early = 0
        """Number of these labels whose prediction came later."""

    def get(self, id: Id, name: Name | None) -> Any:
        """The label known of this id for exactly this model and version, or for any."""
        return self._labels.get((hash_of(id), name)) if self._labels else None

    def put(self, id: Id, name: Name | None, label: Any) -> None:
        """Remember a label; drop the oldest beyond the bounds."""
        self.restore(hash_of(id), name, label)
        self._missing[hash(id)] = None
        if len(self._missing) > MOST_LONE:
            del self._missing[next(iter(self._missing))]
        while len(self._labels) > MOST_LONE or self._bytes > MOST_LONE_BYTES:
            self._bytes -= LONE_BYTES + bytes_of(self._labels.popitem(last=False)[1])

    def count_early(self, ids: Sequence[Id | None], first: int, last: int) -> None:
        """Count the labels whose predictions come now, with ``ids[first:last]``."""
        if self._missing:
            for early in self._missing.keys() & map(hash, ids[first:last]):
                del self._missing[early]
                self.early += 1

    def restore(self, hashed: int, name: Name | None, label: Any) -> None:
        """Remember a label that a snapshot holds."""
        key = hashed, name
        if key in self._labels:
            self._bytes -= LONE_BYTES + bytes_of(self._labels[key])
        self._labels[key] = label
        self._bytes += LONE_BYTES + bytes_of(label)

    def all(self) -> list[tuple[int, Name | None, Any]]:
        """Hash, model and version, and label of each, oldest first."""
        return [(*key, label) for key, label in self._labels.items()]
