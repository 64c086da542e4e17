"""Versions of a model side by side: their scores on the same labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Changes, change

__all__ = ["MOST_PAIRS", "Comparison", "Pair"]

Array = NDArray[np.float64]
PARTS = 240
"""A comparison keeps the sums of so many parts at most; then neighbours are put together."""
MOST_PAIRS = 200


class Pair(NamedTuple):
    """Two versions of a model, in the order of their names."""

    model: str
    version: str
    other: str


class Comparison:
    """Scores of two versions on the rows that both predicted, in the order of their labels."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._open = np.zeros(9)
        self._size = 1

    @property
    def n(self) -> int:
        """Labelled rows."""
        return int(self._sums()[:, 0].sum())

    def add(self, first: Sequence[float], other: Sequence[float]) -> None:
        """A row: hit and log loss as the first version gave it and as it was sent, then those of
        the other: four numbers each."""
        self._add(np.array([1, *first, *other]))

    def update(self, later: Comparison) -> None:
        """Add rows that came after these."""
        for part in (*later._parts, later._open):
            self._add(part)

    def _add(self, part: Array) -> None:
        """Parts are of equal size, about, however the rows come."""
        self._open = self._open + part
        if self._open[0] >= self._size:
            self._parts.append(self._open)
            self._open = np.zeros(9)
        if len(self._parts) >= PARTS:
            self._parts = [a + b for a, b in zip(*[iter(self._parts)] * 2, strict=True)]
            self._size *= 2

    def changes(self, *, sent: bool) -> Changes | None:
        """From the first version to the other, of the rows as they came or as they were sent."""
        sums, at = self._sums(), 2 if sent else 0
        found = [change(sums[:, 0], sums[:, 1 + at + k], sums[:, 5 + at + k]) for k in (0, 1)]
        accuracy, log_loss = found
        return None if accuracy is None or log_loss is None else Changes(accuracy, log_loss)

    def _sums(self) -> Array:
        return np.array([*self._parts, self._open])
