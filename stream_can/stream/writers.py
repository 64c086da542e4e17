"""Who writes to a log that several write to without transactions: each entry, each label once.

A server's replica keeps an entry in its file before it sends it, and sends it again where it cannot
know whether it arrived. So its entries are numbered, and the fold takes those alone that come in
turn. A label that comes in a topic is read by all of them, and taught by whoever has predicted its
id; of several who have, the first entry that has it counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.messages.naming import LaneName
from stream_can.stream.marks import Marks

__all__ = ["StoredWriters", "Writers"]

WINDOW = 1 << 17
"""Of each lane, so many offsets of the labels' topic are remembered as settled or not; a label from
before them teaches nothing any more."""
MOST_WRITERS = 1000
"""The one that was silent longest is forgotten."""


class StoredWriters(msgspec.Struct, array_like=True, frozen=True):
    """As a shared record has it."""

    numbers: list[tuple[bytes, int]]
    """Of each writer the number of its last entry, that with the oldest first."""
    settled: list[tuple[str, str, int, int, bytes]]
    """Of each lane its name, the last offset, and :meth:`Marks.dump`."""


class Writers:
    """What of them counts: a function of the entries below an offset.

    Parameters
    ----------
    stored
        What :meth:`dump` returned.

    Raises
    ------
    SnapshotMismatch
        It holds no such marks.
    """

    def __init__(self, stored: StoredWriters | None = None) -> None:
        self._numbers: dict[bytes, int] = {}
        self._settled: dict[LaneName, tuple[int, Marks]] = {}
        if stored is not None:
            self._numbers = dict(stored.numbers)
            for model, version, last, begin, bits in stored.settled:
                marks = Marks()
                marks.load((begin, bits), last, last + 1)
                self._settled[LaneName(model, version)] = last, marks

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def last(self, writer: bytes) -> int | None:
        """The number of a writer's last entry; None where it has none."""
        return self._numbers.get(writer)

    def take(self, writer: bytes, number: int) -> str | None:
        """The next entry of the log is this one; why it does not count, or None where it does."""
        last = self._numbers.get(writer, -1)
        if number <= last:
            return f"entry {number} of {writer.hex()} came again"
        if number > last + 1:
            return f"entry {number} of {writer.hex()} came before entry {last + 1}"
        self._numbers.pop(writer, None)
        self._numbers[writer] = number
        while len(self._numbers) > MOST_WRITERS:
            del self._numbers[next(iter(self._numbers))]
        return None

    def settled(self, lane: LaneName, offset: int) -> bool:
        """Whether a label has taught a lane, or is too old to."""
        known = self._settled.get(lane)
        return known is not None and (offset < known[1].begin or offset in known[1])

    def settled_anywhere(self, offset: int) -> bool:
        """Whether a label has taught any lane, or is too old to."""
        return any(self.settled(lane, offset) for lane in self._settled)

    def counts(self, lane: LaneName, offsets: Sequence[int]) -> NDArray[np.bool_]:
        """Which labels of an entry teach its lane: those that have not."""
        seen: set[int] = set()
        found = []
        for offset in offsets:
            found.append(offset not in seen and not self.settled(lane, offset))
            seen.add(offset)
        return np.array(found, bool)

    def settle(self, lane: LaneName, offsets: Sequence[int]) -> None:
        """Labels have taught a lane."""
        if not offsets:
            return
        last, marks = self._settled.get(lane) or (0, Marks(max(0, min(offsets) - WINDOW)))
        for offset in offsets:
            marks.mark(offset)
        last = max(last, *offsets)
        marks.forget(last - WINDOW)
        self._settled[lane] = last, marks

    def forget(self, lane: LaneName) -> None:
        """A lane was dropped."""
        self._settled.pop(lane, None)

    def dump(self) -> StoredWriters:
        """For a shared record."""
        settled = []
        for (model, version), (last, marks) in self._settled.items():
            dumped = marks.dump()
            if dumped is not None:
                settled.append((model, version, last, *dumped))
        return StoredWriters(list(self._numbers.items()), settled)
