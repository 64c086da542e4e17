"""Which of the latest predictions of a partition have had their label: a bit for each offset."""

from __future__ import annotations

import zlib

from stream_can.errors import SnapshotMismatch

__all__ = ["Marks"]

MOST = 1 << 32
"""Offsets that a range may span: 512 MB of bits."""


class Marks:
    """Offsets that are marked, in a range that moves up.

    Parameters
    ----------
    begin
        Below it nothing is marked or asked for.
    """

    def __init__(self, begin: int = 0) -> None:
        self._begin = begin - begin % 8
        self._bits = bytearray()

    @property
    def begin(self) -> int:
        """Below this offset nothing is known any more."""
        return self._begin

    def __contains__(self, offset: int) -> bool:
        at = offset - self._begin
        return 0 <= at < 8 * len(self._bits) and bool(self._bits[at >> 3] & (1 << (at & 7)))

    def mark(self, offset: int) -> None:
        """Mark an offset; nothing is done for one below the range. One that is further away than
        ``MOST`` begins it anew."""
        if offset - self._begin > MOST:
            self._begin, self._bits = offset - offset % 8, bytearray()
        at = offset - self._begin
        if at < 0:
            return
        if (missing := (at >> 3) + 1 - len(self._bits)) > 0:
            self._bits += bytes(missing)
        self._bits[at >> 3] |= 1 << (at & 7)

    def forget(self, below: int) -> None:
        """Let the range begin at an offset, or a little before it."""
        if (n := (below - self._begin) >> 3) > 0:
            del self._bits[:n]
            self._begin += 8 * n

    def dump(self) -> tuple[int, bytes] | None:
        """For :meth:`load`; None where nothing is marked."""
        while self._bits and not self._bits[-1]:
            self._bits.pop()
        return (self._begin, zlib.compress(self._bits, 1)) if self._bits else None

    def load(self, data: tuple[int, bytes] | None, oldest: int, end: int) -> None:
        """Take over what :meth:`dump` returned, of predictions from ``oldest`` up to ``end``.

        Raises
        ------
        SnapshotMismatch
            These are no marks of offsets below ``end``.
        """
        begin = oldest - oldest % 8 if data is None else data[0]
        if end - begin > MOST:
            raise SnapshotMismatch(f"snapshot: recent predictions at offsets {begin} to {end}")
        if data is None:
            self._begin, self._bits = begin, bytearray()
            return
        packed, most = data[1], max(0, end - begin + 7) // 8
        try:
            unpack = zlib.decompressobj()
            bits = unpack.decompress(packed, most + 1)
        except zlib.error as error:
            raise SnapshotMismatch(f"snapshot: marks of labelled predictions: {error}") from None
        if begin % 8 or len(bits) > most or not unpack.eof:
            raise SnapshotMismatch(
                f"snapshot: marks of labelled predictions are none of offsets {begin} to {end}"
            )
        self._begin, self._bits = begin, bytearray(bits)
