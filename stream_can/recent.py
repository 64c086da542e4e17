"""The recent predictions of a partition, by id, for labels that arrive later.

The oldest go first once a bound is passed. An entry counts as 8 m + the length of its id, whatever
the machine and the Python, so that two processes drop the same ones; the true size is several times
that: Python's objects, and the corrected row, kept to score it once its label comes.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .errors import SnapshotMismatch

__all__ = ["RecentPredictions"]

HEAD = 2
"""Numbers before the rows of an entry: offset and timestamp, exact in a float64 up to 2^53."""

_HEAD = struct.Struct("2d")


class RecentPredictions:
    """Id -> the latest prediction that had it.

    Parameters
    ----------
    m
        Classes.
    limit
        Most bytes that the entries may count as; 0 keeps nothing.
    """

    def __init__(self, m: int, limit: int) -> None:
        self._m, self._limit = m, limit
        self._unknown = np.full(m, np.nan).tobytes()
        # An entry is offset, timestamp, raw row, corrected row. An OrderedDict, since taking the
        # oldest from a plain dict walks over every place that was freed before it.
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int | None:
        """The offset of the oldest prediction kept; None where none is."""
        for entry in self._entries.values():
            return int(np.frombuffer(entry, count=1)[0])
        return None

    def add(
        self,
        ids: Sequence[bytes | None],
        where: Sequence[tuple[int, int]],
        raw: NDArray[np.float64],
        sent: NDArray[np.float64] | None,
    ) -> None:
        """Keep predictions, in stream order.

        Parameters
        ----------
        ids
            n ids; a prediction with None is not kept.
        where
            Offset and timestamp (ms) of each.
        raw
            Shape (n, m).
        sent
            Corrected rows as they were sent, shape (n, m); None where they are not known any more.
        """
        if not self._limit:
            return
        width = 8 * self._m
        before, behind = raw.tobytes(), self._unknown if sent is None else sent.tobytes()
        start = 0
        for name, place in zip(ids, where, strict=True):
            if name is not None:
                after = behind if sent is None else behind[start : start + width]
                self._insert(name, _HEAD.pack(*place) + before[start : start + width] + after)
            start += width

    def _insert(self, name: bytes, entry: bytes) -> None:
        entries, row = self._entries, 8 * self._m
        if name in entries:
            entries.move_to_end(name)
        else:
            self._size += row + len(name)
        entries[name] = entry
        while self._size > self._limit:
            self._size -= row + len(entries.popitem(last=False)[0])

    def get(self, name: bytes | None) -> bytes | None:
        """The entry of an id, for :meth:`rows`; None where it is not kept."""
        return None if name is None else self._entries.get(name)

    def rows(self, entries: Sequence[bytes]) -> tuple[NDArray[np.float64], ...]:
        """Timestamps (n,), raw and corrected rows (n, m; NaN where unknown) of entries."""
        block = np.frombuffer(b"".join(entries)).reshape(-1, HEAD + 2 * self._m)
        return block[:, 1], block[:, HEAD : HEAD + self._m], block[:, HEAD + self._m :]

    def raw(self, entry: bytes) -> bytes:
        """The raw row of an entry, as the bytes of m float64."""
        return entry[8 * HEAD : 8 * (HEAD + self._m)]

    def dump(self) -> tuple[list[bytes], NDArray[np.float64]]:
        """The ids, oldest first, and their entries, shape (n, 2 + 2 m)."""
        block = np.frombuffer(b"".join(self._entries.values()))
        return list(self._entries), block.reshape(-1, HEAD + 2 * self._m)

    def load(self, ids: Sequence[bytes], block: NDArray[np.float64]) -> None:
        """Keep what :meth:`dump` returned, or as much of it as the bound allows."""
        if block.shape != (len(ids), HEAD + 2 * self._m):
            raise SnapshotMismatch(
                f"snapshot: {len(ids)} ids of recent predictions, rows of shape {block.shape}"
            )
        if self._limit:
            for name, entry in zip(ids, block, strict=True):
                self._insert(name, entry.tobytes())
