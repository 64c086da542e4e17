"""The recent predictions of a partition, by id, for labels that arrive later.

The oldest go first once a bound is passed. A prediction counts as 8 m + the length of its id and of
the values that it gives of columns, whatever the machine and the Python, so that two processes drop
the same ones; the true size is several times that: Python's objects, and the corrected row, kept to
score it once its label comes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.messages.columns import Given, length
from stream_can.method.receipts import ROWS, blank, kept
from stream_can.trust.sets import Ticket

__all__ = ["Bound", "Recent", "RecentPredictions", "raw_bytes", "row_bytes"]

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]

UNKNOWN = np.array(np.nan).tobytes()


class Recent(msgspec.Struct, gc=False):
    """One prediction."""

    offset: int
    timestamp: int
    m: int
    """How many classes there are."""
    number: int = -1
    """Which prediction of the batch at hand it is."""
    rows: bytes = b""
    """One of :func:`row_bytes`; nothing while its batch is at hand."""
    fair: bool = True
    """Whether its label would be a sample to score by."""
    given: Given | None = None
    """What it gave of the declared columns: the prediction's values count, not its label's."""
    labelled: bool = False
    """Whether it has had its label."""
    ticket: Ticket | None = None
    """What its prediction set was made with, where it has one."""

    @property
    def raw(self) -> bytes:
        """m float64: the row as it came."""
        return self.rows[: 8 * self.m]

    @property
    def sent(self) -> bytes | None:
        """m float64: the row as it was sent, where that is known and to be scored."""
        row = self.rows[8 * self.m : 16 * self.m]
        return row if self.fair and not row.startswith(UNKNOWN) else None

    @property
    def receipt(self) -> bytes | None:
        """What it was mixed from, where that is known; see ``stream_can.method.receipts``."""
        return kept(self.rows[16 * self.m :])

    def set_sent(self) -> tuple[bytes, Ticket] | None:
        """The row as it was sent, and what its prediction set was made with, where known."""
        if self.ticket is None or (sent := self.sent) is None:
            return None
        return sent, self.ticket

    def recall(self, sent: bytes, fair: bool) -> None:
        """Know again what was sent: m float64, where no more than the raw row was known."""
        self.rows = self.raw + sent + self.rows[16 * self.m :]
        self.fair = fair


def row_bytes(raw: Array, sent: Array, receipts: Receipts) -> list[bytes]:
    """The rows of predictions, each in one piece: raw, as sent, receipt; NaN is "not known"."""
    pieces = (raw, sent, receipts)
    together = np.concatenate([np.ascontiguousarray(x).view(np.uint8) for x in pieces], axis=1)
    data, width = together.tobytes(), together.shape[1]
    return [data[i : i + width] for i in range(0, len(data), width)]


def raw_bytes(raw: Array, n_sent: int = ROWS) -> list[bytes]:
    """:func:`row_bytes` where no more than the raw rows, shape (n, m), is known."""
    n, m = raw.shape
    return row_bytes(raw, np.full((n, m), np.nan), blank(n, m, n_sent))


class Bound:
    """One bound for the recent predictions of several lanes: the oldest of all goes first.

    Parameters
    ----------
    limit
        Most bytes that all of them may count as.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._size = 0
        # Whose prediction came when. One that its id's next has replaced is not there any more.
        self._order: deque[tuple[int, RecentPredictions]] = deque()
        self._tidy_at = 1000
        self._holders: dict[bytes, tuple[RecentPredictions, ...]] = {}

    def holders(self, name: bytes) -> tuple[RecentPredictions, ...]:
        """Those that keep a prediction of this id."""
        return self._holders.get(name, ())

    def added(self, owner: RecentPredictions, name: bytes, offset: int, grown: int) -> None:
        """A prediction was kept, by which its owner grew."""
        order, holders = self._order, self._holders.get(name, ())
        order.append((offset, owner))
        if owner not in holders:
            self._holders[name] = (*holders, owner)
        self._size += grown
        while self._size > self.limit and order:
            oldest, whose = order.popleft()
            if whose.oldest == oldest:
                whose.drop_oldest()
        if len(order) > self._tidy_at:
            kept = {whose: whose.offsets() for whose in {whose for _, whose in order}}
            self._order = deque((at, whose) for at, whose in order if at in kept[whose])
            self._tidy_at = 2 * len(self._order) + 1000

    def dropped(self, owner: RecentPredictions, name: bytes, freed: int) -> None:
        """An owner keeps no prediction of an id any more."""
        self._size -= freed
        left = tuple(one for one in self._holders.pop(name) if one is not owner)
        if left:
            self._holders[name] = left


class RecentPredictions:
    """Id -> the latest prediction that had it.

    Parameters
    ----------
    m
        Classes.
    limit
        Most bytes that the predictions may count as; 0 keeps nothing.
    columns
        How many columns are declared.
    n_sent
        Rows of a receipt.
    bound
        Takes the place of the limit where several share one.
    """

    def __init__(
        self,
        m: int,
        limit: int,
        columns: int = 0,
        n_sent: int = ROWS,
        bound: Bound | None = None,
    ) -> None:
        self._m, self._bound = m, bound
        self._limit = limit if bound is None else bound.limit
        self._columns, self._n_sent = columns, n_sent
        # An OrderedDict, since taking the oldest from a plain dict walks over every place that was
        # freed before it.
        self._entries: OrderedDict[bytes, Recent] = OrderedDict()
        self._size = 0
        self.owner: Any = None
        """The lane whose predictions they are, where several share a bound."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int | None:
        """The offset of the oldest prediction kept; None where none is."""
        for entry in self._entries.values():
            return entry.offset
        return None

    @property
    def earliest(self) -> int | None:
        """The least timestamp of the predictions kept; None where none is."""
        return min((entry.timestamp for entry in self._entries.values()), default=None)

    def add(self, name: bytes | None, entry: Recent) -> None:
        """Keep a prediction, the newest by now; one whose id is None is not kept."""
        if name is None or not self._limit:
            return
        entries, row, before = self._entries, 8 * self._m, self._size
        if name in entries:
            entries.move_to_end(name)
            if self._columns:
                self._size -= length(entries[name].given)
        else:
            self._size += row + len(name)
        if self._columns:
            self._size += length(entry.given)
        entries[name] = entry
        if self._bound is not None:
            self._bound.added(self, name, entry.offset, self._size - before)
            return
        while self._size > self._limit:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Drop the oldest."""
        gone, oldest = self._entries.popitem(last=False)
        freed = 8 * self._m + len(gone) + length(oldest.given)
        self._size -= freed
        if self._bound is not None:
            self._bound.dropped(self, gone, freed)

    def clear(self) -> None:
        """Drop all."""
        while self._entries:
            self.drop_oldest()

    def offsets(self) -> set[int]:
        """Of the predictions kept."""
        return {entry.offset for entry in self._entries.values()}

    def get(self, name: bytes | None) -> Recent | None:
        """The prediction of an id; None where it is not kept."""
        return None if name is None else self._entries.get(name)

    def __iter__(self) -> Iterator[tuple[bytes, Recent]]:
        """Ids and predictions, oldest first."""
        return iter(self._entries.items())
