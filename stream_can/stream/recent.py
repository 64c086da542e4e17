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

__all__ = ["Recent", "RecentPredictions"]

HEAD = 2
"""Numbers before the rows in a snapshot: offset and timestamp, exact in a float64 up to 2^53."""


class Recent(msgspec.Struct, gc=False):
    """One prediction; its rows are the bytes of m float64."""

    offset: int
    timestamp: int
    raw: bytes = b""
    sent: bytes | None = None
    """The corrected row as it was sent, to score it; None where that is not known (any more), or
    where its label would be no fair sample."""
    receipt: bytes | None = None
    """3 m float32, what it was mixed from; None where that is not known (any more)."""
    number: int = -1
    """Which prediction of the batch at hand, whose rows are not here yet; -1 once they are."""


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

    def dump(self) -> tuple[list[bytes], NDArray[np.float64], NDArray[np.float32]]:
        """The ids, oldest first, a row for each, shape (n, 2 + 2 m): offset, timestamp, the raw row
        and the corrected one, and the receipts, shape (n, 3 m); NaN where one is not known."""
        entries = self._entries.values()
        unknown = np.full(self._m, np.nan).tobytes()
        block = np.empty((len(entries), HEAD + 2 * self._m))
        block[:, 0] = [entry.offset for entry in entries]
        block[:, 1] = [entry.timestamp for entry in entries]
        rows = b"".join(entry.raw + (entry.sent or unknown) for entry in entries)
        block[:, HEAD:] = np.frombuffer(rows).reshape(-1, 2 * self._m)
        blank = np.full(3 * self._m, np.nan, np.float32).tobytes()
        receipts = b"".join(entry.receipt or blank for entry in entries)
        shape = (len(entries), 3 * self._m)
        return list(self._entries), block, np.frombuffer(receipts, np.float32).reshape(shape)

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
        numbers, raw, sent = block[:, :HEAD], block[:, HEAD : HEAD + m], block[:, HEAD + m :]
        offsets = numbers[:, 0]
        if not (abs(numbers) < 2.0**63).all() or (numbers % 1).any():
            raise SnapshotMismatch("snapshot: offsets and timestamps of recent predictions")
        if not ((offsets >= 0) & (offsets < end)).all():
            raise SnapshotMismatch(f"snapshot: a recent prediction's offset is not below {end}")
        for row, reason in bad_rows(np.ascontiguousarray(raw)).items():
            raise SnapshotMismatch(f"snapshot: recent prediction {row}: {reason}")
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
        for name, row, receipt in zip(ids, block, receipts, strict=True):
            raw, sent = row[HEAD : HEAD + m], row[HEAD + m :]
            known = None if np.isnan(sent[0]) else sent.tobytes()
            entry = Recent(int(row[0]), int(row[1]), raw.tobytes(), known)
            if not np.isnan(receipt[0]):
                entry.receipt = receipt.tobytes()
            self.add(name, entry)
