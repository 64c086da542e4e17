"""The recent predictions of a partition, by id, for labels that arrive later.

The oldest go first once a bound is passed. A prediction counts as 8 m + the length of its id,
whatever the machine and the Python, so that two processes drop the same ones; the true size is
several times that: Python's objects, and the corrected row, kept to score it once its label comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.errors import SnapshotMismatch

__all__ = ["Recent", "RecentPredictions"]

HEAD = 2
"""Numbers before the rows in a snapshot: offset and timestamp, exact in a float64 up to 2^53."""


class Recent(msgspec.Struct, gc=False):
    """One prediction; its rows are the bytes of m float64."""

    offset: int
    timestamp: int
    raw: bytes = b""
    sent: bytes | None = None
    """The corrected row as it was sent; None where that is not known (any more)."""
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

    def dump(self) -> tuple[list[bytes], NDArray[np.float64]]:
        """The ids, oldest first, and a row for each, shape (n, 2 + 2 m): offset, timestamp, the raw
        row and the corrected one (NaN where it is not known)."""
        entries = self._entries.values()
        unknown = np.full(self._m, np.nan).tobytes()
        block = np.empty((len(entries), HEAD + 2 * self._m))
        block[:, 0] = [entry.offset for entry in entries]
        block[:, 1] = [entry.timestamp for entry in entries]
        rows = b"".join(entry.raw + (entry.sent or unknown) for entry in entries)
        block[:, HEAD:] = np.frombuffer(rows).reshape(-1, 2 * self._m)
        return list(self._entries), block

    def load(self, ids: Sequence[bytes], block: NDArray[np.float64]) -> None:
        """Keep what :meth:`dump` returned, or as much of it as the bound allows."""
        m = self._m
        if block.shape != (len(ids), HEAD + 2 * m):
            raise SnapshotMismatch(
                f"snapshot: {len(ids)} ids of recent predictions, rows of shape {block.shape}"
            )
        for name, row in zip(ids, block, strict=True):
            raw, sent = row[HEAD : HEAD + m], row[HEAD + m :]
            known = None if np.isnan(sent[0]) else sent.tobytes()
            self.add(name, Recent(int(row[0]), int(row[1]), raw.tobytes(), known))
