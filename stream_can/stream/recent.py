"""The recent predictions of a partition, by id, for labels that arrive later.

The oldest go first once a bound is passed. A prediction counts as 8 m + the length of its id and of
the values that it gives of columns, whatever the machine and the Python, so that two processes drop
the same ones; the true size is several times that: Python's objects, and the corrected row, kept to
score it once its label comes.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.errors import SnapshotMismatch
from stream_can.messages.columns import Given, length
from stream_can.method.checks import bad_rows
from stream_can.method.receipts import ROWS, blank, kept, size
from stream_can.stream.marks import Marks
from stream_can.trust.sets import Ticket

__all__ = ["Bound", "Recent", "RecentPredictions", "raw_bytes", "row_bytes"]

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]

UNKNOWN = np.array(np.nan).tobytes()

HEAD = 2
"""Numbers before the rows in a snapshot: offset and timestamp, exact in a float64 up to 2^53."""


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

    def since(self, offset: int) -> list[tuple[bytes, Recent]]:
        """Ids and predictions from an offset on, the newest first."""
        newest = reversed(self._entries.items())
        return list(takewhile(lambda item: item[1].offset >= offset, newest))

    def __iter__(self) -> Iterator[tuple[bytes, Recent]]:
        """Ids and predictions, oldest first."""
        return iter(self._entries.items())

    def dump(self) -> tuple[list[bytes], Array, Receipts]:
        """The ids, oldest first, a row for each, shape (n, 2 + 2 m): offset, timestamp, the raw row
        and the corrected one, and the receipts, a row each; NaN where one is not known."""
        entries, n, m = self._entries.values(), len(self._entries), self._m
        width = size(m, self._n_sent)
        row = np.dtype([("raw and sent", np.float64, 2 * m), ("receipt", np.float32, width)])
        rows = np.frombuffer(b"".join([entry.rows for entry in entries]), row)
        block = np.empty((n, HEAD + 2 * m))
        block[:, 0] = [entry.offset for entry in entries]
        block[:, 1] = [entry.timestamp for entry in entries]
        block[:, HEAD:] = rows["raw and sent"]
        block[[not entry.fair for entry in entries], HEAD + m :] = np.nan
        return list(self._entries), block, rows["receipt"].copy()

    def dump_given(self) -> list[Given] | None:
        """What each gave of the columns, oldest first; None where none are declared."""
        return [entry.given or () for entry in self._entries.values()] if self._columns else None

    def dump_tickets(self) -> Array | None:
        """What each one's prediction set was made with, shape (n, 2), NaN where that is not known;
        None where none is."""
        found = [entry.ticket or (math.nan, math.nan) for entry in self._entries.values()]
        tickets = np.array(found, np.float64).reshape(-1, 2)
        return None if np.isnan(tickets).all() else tickets

    def load_tickets(self, tickets: NDArray[Any]) -> None:
        """Know again what :meth:`dump_tickets` returned of the predictions that :meth:`load` kept.

        Raises
        ------
        SnapshotMismatch
            They are none.
        """
        n, rows = len(self._entries), tickets[:, 1:] if tickets.ndim == 2 else tickets
        if tickets.dtype != np.float64 or tickets.ndim != 2 or tickets.shape[1] != 2:
            raise SnapshotMismatch("snapshot: prediction sets of recent predictions")
        known = ~np.isnan(tickets).any(axis=1)
        if len(tickets) < n or not (rows[known] >= 0).all() or (rows[known] % 1).any():
            raise SnapshotMismatch("snapshot: prediction sets of recent predictions")
        kept = zip(self._entries.values(), tickets[len(tickets) - n :], strict=True)
        for entry, (theta, row) in kept:
            if not math.isnan(row):
                entry.ticket = Ticket(float(theta), int(row))

    def load(
        self,
        ids: Sequence[bytes],
        block: NDArray[Any] | None,
        receipts: NDArray[Any] | None,
        end: int,
        given: Sequence[Given] | None = None,
        labelled: Marks | None = None,
    ) -> None:
        """Keep what :meth:`dump` and :meth:`dump_given` returned, or as much as the bound allows.

        ``labelled`` are the offsets of those that have had their label.

        Raises
        ------
        SnapshotMismatch
            Where that is no block of predictions with offsets below ``end``.
        """
        m = self._m
        expected = (len(ids), HEAD + 2 * m)
        if block is None or block.dtype != np.float64 or block.shape != expected:
            what = "none" if block is None else f"{block.dtype} of shape {block.shape}"
            raise SnapshotMismatch(
                f"snapshot: {len(ids)} ids of recent predictions, rows {what}, expected {expected}"
            )
        numbers, raw, sent = np.split(block, [HEAD, HEAD + m], axis=1)
        offsets = numbers[:, 0]
        if not (abs(numbers) < 2.0**63).all() or (numbers % 1).any():
            raise SnapshotMismatch("snapshot: offsets and timestamps of recent predictions")
        if not ((offsets >= 0) & (offsets < end)).all():
            raise SnapshotMismatch(f"snapshot: a recent prediction's offset is not below {end}")
        for number, reason in bad_rows(np.ascontiguousarray(raw)).items():
            raise SnapshotMismatch(f"snapshot: recent prediction {number}: {reason}")
        # Rounded to a few digits, what was sent need not sum to 1.
        if not (((sent >= 0) & (sent <= 1.001)) | np.isnan(sent).all(axis=1, keepdims=True)).all():
            raise SnapshotMismatch("snapshot: a recent prediction's corrected row")
        shape = len(ids), size(m, self._n_sent)
        if receipts is None or receipts.dtype != np.float32 or receipts.shape != shape:
            what = "none" if receipts is None else f"{receipts.dtype} of shape {receipts.shape}"
            raise SnapshotMismatch(
                f"snapshot: receipts of recent predictions are {what}, expected float32 of shape"
                f" {shape}"
            )
        if [*map(len, given or ())] != [self._columns] * (len(ids) if self._columns else 0):
            raise SnapshotMismatch(
                f"snapshot: what recent predictions gave of columns, expected {len(ids)} times"
                f" {self._columns} values"
            )
        unknown = np.isnan(receipts).all(axis=1, keepdims=True)
        if not (((receipts >= 0) & (receipts <= 1.001)) | unknown).all():
            raise SnapshotMismatch("snapshot: a recent prediction's receipt")
        # One NaN for all: it is looked for by its bytes.
        sent = np.where(np.isnan(sent), np.nan, sent)
        receipts = np.where(unknown, np.float32(np.nan), receipts)
        places, stamps = numbers.astype(np.int64).T.tolist()
        rows = row_bytes(raw, sent, receipts)
        each: Sequence[Given | None] = given or [None] * len(ids)
        for name, offset, timestamp, data, one in zip(ids, places, stamps, rows, each, strict=True):
            kept = Recent(
                offset,
                timestamp,
                m,
                rows=data,
                given=one,
                labelled=labelled is not None and offset in labelled,
            )
            self.add(name, kept)
