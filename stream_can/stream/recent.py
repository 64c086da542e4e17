"""The recent predictions of a partition, by id, for labels that arrive later.

The oldest go first once a bound is passed. A prediction counts as 8 m + the length of its id,
whatever the machine and the Python, so that two processes drop the same ones; the true size is
several times that: Python's objects, and the corrected row, kept to score it once its label comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.errors import SnapshotMismatch
from stream_can.method.kernel import bad_rows

__all__ = ["Recent", "RecentPredictions", "raw_bytes", "row_bytes"]

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]

WIDTH = 8 + 8 + 3 * 4
"""Bytes of a prediction for each class: its raw number, the one sent, and those of the receipt."""
UNKNOWN, UNKNOWN_32 = np.array(np.nan).tobytes(), np.array(np.nan, np.float32).tobytes()

HEAD = 2
"""Numbers before the rows in a snapshot: offset and timestamp, exact in a float64 up to 2^53."""


class Recent(msgspec.Struct, gc=False):
    """One prediction."""

    offset: int
    timestamp: int
    number: int = -1
    """Which prediction of the batch at hand it is."""
    rows: bytes = b""
    """One of :func:`row_bytes`; nothing while its batch is at hand."""
    fair: bool = True
    """Whether its label would be a sample to score by."""

    @property
    def raw(self) -> bytes:
        """m float64: the row as it came."""
        return self.rows[: 8 * (len(self.rows) // WIDTH)]

    @property
    def sent(self) -> bytes | None:
        """m float64: the row as it was sent, where that is known and to be scored."""
        m = len(self.rows) // WIDTH
        row = self.rows[8 * m : 16 * m]
        return row if self.fair and not row.startswith(UNKNOWN) else None

    @property
    def receipt(self) -> bytes | None:
        """3 m float32: what it was mixed from, where that is known."""
        row = self.rows[16 * (len(self.rows) // WIDTH) :]
        return None if row.startswith(UNKNOWN_32) else row


def row_bytes(raw: Array, sent: Array, receipts: Receipts) -> list[bytes]:
    """The rows of predictions, each in one piece: raw, as sent, receipt; NaN is "not known"."""
    n, m = raw.shape
    pieces = (raw, sent, receipts.reshape(n, 3 * m))
    together = np.concatenate([np.ascontiguousarray(x).view(np.uint8) for x in pieces], axis=1)
    data, width = together.tobytes(), together.shape[1]
    return [data[i : i + width] for i in range(0, len(data), width)]


def raw_bytes(raw: Array) -> list[bytes]:
    """:func:`row_bytes` where no more than the raw rows, shape (n, m), is known."""
    n, m = raw.shape
    return row_bytes(raw, np.full((n, m), np.nan), np.full((n, 3, m), np.nan, np.float32))


class RecentPredictions:
    """Id -> the latest prediction that had it.

    Parameters
    ----------
    m
        Classes.
    limit
        Most bytes that the predictions may count as; 0 keeps nothing.
    """

    def __init__(self, m: int, limit: int) -> None:
        self._m, self._limit = m, limit
        # An OrderedDict, since taking the oldest from a plain dict walks over every place that was
        # freed before it.
        self._entries: OrderedDict[bytes, Recent] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int | None:
        """The offset of the oldest prediction kept; None where none is."""
        for entry in self._entries.values():
            return entry.offset
        return None

    def add(self, name: bytes | None, entry: Recent) -> None:
        """Keep a prediction, the newest by now; one whose id is None is not kept."""
        if name is None or not self._limit:
            return
        entries, row = self._entries, 8 * self._m
        if name in entries:
            entries.move_to_end(name)
        else:
            self._size += row + len(name)
        entries[name] = entry
        while self._size > self._limit:
            self._size -= row + len(entries.popitem(last=False)[0])

    def get(self, name: bytes | None) -> Recent | None:
        """The prediction of an id; None where it is not kept."""
        return None if name is None else self._entries.get(name)

    def dump(self) -> tuple[list[bytes], Array, Receipts]:
        """The ids, oldest first, a row for each, shape (n, 2 + 2 m): offset, timestamp, the raw row
        and the corrected one, and the receipts, shape (n, 3 m); NaN where one is not known."""
        entries, n, m = self._entries.values(), len(self._entries), self._m
        row = np.dtype([("raw and sent", np.float64, 2 * m), ("receipt", np.float32, 3 * m)])
        rows = np.frombuffer(b"".join([entry.rows for entry in entries]), row)
        block = np.empty((n, HEAD + 2 * m))
        block[:, 0] = [entry.offset for entry in entries]
        block[:, 1] = [entry.timestamp for entry in entries]
        block[:, HEAD:] = rows["raw and sent"]
        block[[not entry.fair for entry in entries], HEAD + m :] = np.nan
        return list(self._entries), block, rows["receipt"].copy()

    def load(
        self,
        ids: Sequence[bytes],
        block: NDArray[Any] | None,
        receipts: NDArray[Any] | None,
        end: int,
    ) -> None:
        """Keep what :meth:`dump` returned, or as much of it as the bound allows.

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
        if receipts is None:  # a snapshot of task format 1
            receipts = np.full((len(ids), 3 * m), np.nan, np.float32)
        if receipts.dtype != np.float32 or receipts.shape != (len(ids), 3 * m):
            raise SnapshotMismatch(
                f"snapshot: receipts of recent predictions are {receipts.dtype} of shape"
                f" {receipts.shape}, expected float32 of shape {(len(ids), 3 * m)}"
            )
        unknown = np.isnan(receipts).all(axis=1, keepdims=True)
        if not (((receipts >= 0) & (receipts <= 1.001)) | unknown).all():
            raise SnapshotMismatch("snapshot: a recent prediction's receipt")
        # One NaN for all: it is looked for by its bytes.
        sent = np.where(np.isnan(sent), np.nan, sent)
        receipts = np.where(unknown, np.float32(np.nan), receipts)
        places, stamps = numbers.astype(np.int64).T.tolist()
        rows = row_bytes(raw, sent, receipts)
        for name, offset, timestamp, data in zip(ids, places, stamps, rows, strict=True):
            self.add(name, Recent(offset, timestamp, rows=data))
