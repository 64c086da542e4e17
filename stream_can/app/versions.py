"""Comparison of a model's versions by their scores on the same labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Changes, change

Array = NDArray[np.float64]
PARTS = 240
"""Maximum number of parts whose sums are kept; beyond it neighbours are merged."""
MOST_PAIRS = 200


class Pair(NamedTuple):
    """Two versions of a model, ordered by name."""

    model: str
    version: str
    other: str


class Comparison:
    """Scores of two versions on rows that both predicted, in label order."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._open = np.zeros(9)
        self._size = 1

    @property
    def n(self) -> int:
        """Number of labelled rows, each counted as its label's weight."""
        return round(float(self._sums()[:, 0].sum()))

    def add_row(self, first: Sequence[float], other: Sequence[float], weight: float = 1.0) -> None:
        """Add a row: hit and log loss, raw and sent, of the first version and then of the other;
        four numbers each."""
        self._add(weight * np.array([1, *first, *other]))

    def update(self, later: Comparison) -> None:
        """Add rows that came later."""
        for part in (*later._parts, later._open):
            self._add(part)

    def _add(self, part: Array) -> None:
        """Add a part; parts stay about equal in size."""
        self._open = self._open + part
        if self._open[0] >= self._size:
            self._parts.append(self._open)
            self._open = np.zeros(9)
        if len(self._parts) >= PARTS:
            self._parts = [a + b for a, b in zip(*[iter(self._parts)] * 2, strict=True)]
            self._size *= 2

    def changes(self, *, sent: bool) -> Changes | None:
        """Changes from the first version to the other, of raw or sent rows."""
        sums, at = self._sums(), 2 if sent else 0
        score_changes = [
            change(sums[:, 0], sums[:, 1 + at + k], sums[:, 5 + at + k]) for k in (0, 1)
        ]
        accuracy, log_loss = score_changes
        return None if accuracy is None or log_loss is None else Changes(accuracy, log_loss)

    def _sums(self) -> Array:
        return np.array([*self._parts, self._open])
