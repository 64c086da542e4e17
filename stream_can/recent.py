"""The recent predictions of a partition, by id, for labels that arrive later.

The oldest go first once a bound is passed. An entry counts as 8 m + the length of its id, whatever
the machine and the Python, so that two processes drop the same ones; the true size is several times
that: Python's objects, and the corrected row, kept to score it once its label comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecentPredictions"]

HEAD = 2
"""Numbers before the rows of an entry: offset and timestamp, exact in a float64 up to 2^53."""


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
        self._width = 8 * (HEAD + 2 * m)
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
        if not self._limit or not ids:
            return
        m, width = self._m, self._width
        block = np.empty((len(ids), HEAD + 2 * m))
        block[:, :HEAD] = where
        block[:, HEAD : HEAD + m] = raw
        block[:, HEAD + m :] = np.nan if sent is None else sent
        self._insert(ids, block.tobytes(), width)

    def _insert(self, ids: Sequence[bytes | None], data: bytes, width: int) -> None:
        entries, row, size = self._entries, 8 * self._m, self._size
        start = 0
        for name in ids:
            if name is not None:
                if name in entries:
                    entries.move_to_end(name)
                else:
                    size += row + len(name)
                entries[name] = data[start : start + width]
                while size > self._limit:
                    size -= row + len(entries.popitem(last=False)[0])
            start += width
        self._size = size

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
            raise ValueError(f"recent predictions: {len(ids)} ids, array of shape {block.shape}")
        if self._limit:
            self._insert(ids, block.tobytes(), self._width)
