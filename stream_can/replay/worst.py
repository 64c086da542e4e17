"""The stretch of a stream in which the output did worst compared to the raw rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW = 500
"""Number of labelled rows in a stretch."""


class WorstStretch:
    """Finds the 500 consecutive labelled rows with the worst change in accuracy, the first of
    equals.

    Memory is that of 500 rows.
    """

    def __init__(self) -> None:
        self._rows = np.empty(0, np.int64)
        self._hits = np.empty((0, 2))
        self.first = self.last = -1
        """Numbers of its first and last row, from 0; -1 before there are 500."""
        self.before = self.after = float("nan")
        """Share of its rows that is right, raw and sent."""
        self.below = self.stretches = 0
        """Number of stretches below raw, and of all; one ends at each row."""

    def add(self, rows: NDArray[np.int64], hits: NDArray[np.bool_]) -> None:
        """Add labelled rows by number; ``hits`` tell whether raw and sent are right, shape (n,
        2)."""
        rows = np.concatenate([self._rows, rows])
        all_hits = np.concatenate([self._hits, hits])
        self._rows, self._hits = rows[1 - WINDOW :], all_hits[1 - WINDOW :]
        if len(rows) < WINDOW:
            return
        sums = np.cumsum(np.concatenate([np.zeros((1, 2)), all_hits]), axis=0)
        shares = (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW
        changes = shares[:, 1] - shares[:, 0]
        self.below += int((changes < 0).sum())
        self.stretches += len(changes)
        at = int(changes.argmin())
        if self.first < 0 or changes[at] < self.after - self.before:
            self.first, self.last = int(rows[at]), int(rows[at + WINDOW - 1])
            self.before, self.after = shares[at].tolist()

    def in_words(self) -> str:
        """Describe where it is and how much worse; empty before 500 labelled rows."""
        if self.first < 0:
            return ""
        where = f"rows {self.first + 1:,} to {self.last + 1:,}"
        change = 100 * (self.after - self.before)
        if change >= 0:
            return f"No {WINDOW} labelled rows in a row are below the predictions as they came."
        return (
            f"At its worst, in {WINDOW} labelled rows in a row ({where}), it is right in"
            f" {100 * self.after:.1f} % where the predictions as they came are in"
            f" {100 * self.before:.1f} % ({change:+.1f} points). In {self._share()} of all such"
            " stretches it is right less often than they are."
        )

    def _share(self) -> str:
        share = 100 * self.below / self.stretches
        return f"{share:.0f} %" if share >= 1 else "less than 1 %"

    def to_dict(self) -> dict[str, Any] | None:
        """The stretch as JSON would have it; None without 500 labelled rows."""
        if self.first < 0:
            return None
        return {
            "rows": [self.first, self.last], "labelled": WINDOW,
            "accuracy": {"raw": self.before, "corrected": self.after},
            "share_below_raw": self.below / self.stretches,
        }  # fmt: skip
