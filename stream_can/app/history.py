"""A day of a worker's figures in bounded memory: an hour in slots of 10 s, the day in 5 min.

The standard error of a change is computed from the sums of the slots, so no sums of squares are
kept or updated per record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Change, change

Array = NDArray[np.float64]

DELAYS = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400)
"""Upper ends of the label delay's buckets, in seconds."""
SUMS = (
    "predictions", "labels", "matched", "unmatched", "dead_letters", "scored", "hits_before",
    "hits_after", "log_loss_before", "log_loss_after", "commits", "commit_seconds", "given_up",
    "asked", "answered", "repeated", "early", "without_id", "set_rows",
    "set_classes", "set_labels", "set_kept", "sure_rows", "confidence", "doubt", "gap_labels",
    "gap",
)  # fmt: skip
LARGEST = ("commit_longest", "lag")
COLUMN = {name: i for i, name in enumerate((*SUMS, *LARGEST))}
CONFUSION_SLOTS, CONFUSION_SECONDS = 12, 300
WIDTH = len(COLUMN) + len(DELAYS) + 1


class Slots:
    """Figures of consecutive slots, oldest first."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    def __getitem__(self, name: str) -> Array:
        """A figure in each slot."""
        return self.rows[:, COLUMN[name]]

    def total(self, name: str) -> float:
        """Sum of a figure over the slots; the maximum of those that are not additive."""
        return float(self[name].max() if name in LARGEST else self[name].sum())

    def merged(self, slots: int) -> Slots:
        """Combine neighbouring slots."""
        parts = self.rows.reshape(-1, slots, WIDTH)
        rows, tops = parts.sum(axis=1), slice(len(SUMS), len(COLUMN))
        rows[:, tops] = parts[:, :, tops].max(axis=1)
        return Slots(rows)

    def change(self, score: str) -> Change | None:
        """Change of "hits" or "log_loss" per label; None without labels."""
        return change(self["scored"], self[f"{score}_before"], self[f"{score}_after"])

    def delay(self, share: float) -> tuple[float, float | None] | None:
        """Bucket that contains a quantile of the label delay: lower and upper end (None: no
        end)."""
        counts = self.rows[:, len(COLUMN) :].sum(axis=0).cumsum()
        if not counts[-1]:
            return None
        bucket = int(np.searchsorted(counts, share * counts[-1]))
        ends = (0, *DELAYS, None)
        return ends[bucket] or 0, ends[bucket + 1]


class Ring:
    """The newest slots of one length; older ones are overwritten."""

    def __init__(self, seconds: int, slots: int) -> None:
        self.seconds, self.slots = seconds, slots
        self._rows = np.zeros((slots, WIDTH))
        self._newest: int | None = None

    @property
    def nbytes(self) -> int:
        """Memory in bytes; constant."""
        return self._rows.nbytes

    def slot(self, now: float) -> Array:
        """The row for a time; after a clock was set back, the newest."""
        self._advance(now)
        assert self._newest is not None
        row: Array = self._rows[self._newest % self.slots]
        return row

    def _advance(self, now: float) -> None:
        number = int(now // self.seconds)
        newest = number if self._newest is None else self._newest
        for new in range(max(newest, number - self.slots) + 1, number + 1):
            self._rows[new % self.slots] = 0
        self._newest = max(newest, number)

    def last(self, now: float, slots: int | None = None) -> Slots:
        """The slots up to a time."""
        self._advance(now)
        assert self._newest is not None
        n = slots or self.slots
        return Slots(self._rows[np.arange(self._newest - n + 1, self._newest + 1) % self.slots])


class History:
    """Sums of the last hour and day; times are seconds since 1970."""

    def __init__(self) -> None:
        self.hour = Ring(10, 360)
        self.day = Ring(300, 288)
        self._confusion: deque[tuple[int, Array]] = deque(maxlen=CONFUSION_SLOTS)
        """Number and sums of the last slots with any, oldest first."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes; constant."""
        return self.hour.nbytes + self.day.nbytes

    def record(self, now: float, delays: Sequence[float] = (), **amounts: float) -> None:
        """Add to the current slots: figures by name, and label delays in seconds."""
        row = np.zeros(WIDTH)
        for name, amount in amounts.items():
            row[COLUMN[name]] = amount
        if delays:
            buckets = np.searchsorted(DELAYS, delays)
            row[len(COLUMN) :] = np.bincount(buckets, minlength=len(DELAYS) + 1)
        tops = slice(len(SUMS), len(COLUMN))
        for ring in (self.hour, self.day):
            slot = ring.slot(now)
            largest = np.maximum(slot[tops], row[tops])
            slot += row
            slot[tops] = largest

    def record_confusion(self, now: float, sums: Array | None) -> None:
        """Add sums by predicted class, see `MetricsSource.take_confusion`."""
        if sums is None:
            return
        number = int(now // CONFUSION_SECONDS)
        if self._confusion and self._confusion[-1][1].shape != sums.shape:
            self._confusion.clear()
        if self._confusion and self._confusion[-1][0] >= number:
            self._confusion[-1][1][:] += sums
        else:
            self._confusion.append((number, sums.copy()))

    def confusion(self, now: float) -> Array | None:
        """Sums by predicted class over the last hour, shape (2, m, m); None without any."""
        oldest = int(now // CONFUSION_SECONDS) - CONFUSION_SLOTS
        sums = [slot for number, slot in self._confusion if number > oldest]
        return np.sum(sums, axis=0) if sums else None
