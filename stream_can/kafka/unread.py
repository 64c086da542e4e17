"""UnreadRecords: what there is to read in partitions, and which of these are behind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stream_can.learner.order import BEHIND

__all__ = ["MANY_RECORDS", "Unread", "UnreadRecords"]

OLD_SECONDS = 2.0
"""Records that are older by their own times are a backlog, unless there are few."""
FEW_RECORDS, MANY_RECORDS = 50, 1000
"""So many old ones of a partition are few; and so many to read are a backlog whatever their times,
of a partition its share. Either where no more come in a second."""
RATE_SECONDS = 1.0
"""Seconds over which the rate of a partition is measured."""


class Unread(NamedTuple):
    """What there is to read in a partition."""

    records: int
    """Number of records, those that were just read included."""
    times: Sequence[float]
    """Times of those, in seconds."""
    end: int
    """Next offset of the partition."""


class _ArrivalRate:
    """Records that come in a second."""

    def __init__(self, end: int, now: float) -> None:
        self._end, self._at, self.value = end, now, 0.0

    def look(self, end: int, now: float) -> float:
        """Look at the end of the partition; return the rate."""
        if now - self._at >= RATE_SECONDS:
            self.value = max(0, end - self._end) / (now - self._at)
            self._end, self._at = end, now
        return self.value


class UnreadRecords:
    """Records to read, their rates and times, by partition.

    Parameters
    ----------
    lags
        Number of records to read in each partition.
    """

    def __init__(self, lags: Mapping[int, int] | None = None) -> None:
        self._left = dict(lags or {})
        """Number of records to read in each partition; those that were read and wait are among
        them."""
        self._all_left = sum(self._left.values())
        self._rates: dict[int, _ArrivalRate] = {}
        self._seen: dict[int, tuple[float, float]] = {}
        """For each partition the latest time of its records so far, and when it was looked at."""

    def count(self, partition: int, records: int) -> None:
        """Count the records to read in a partition."""
        self._all_left += records - self._left.get(partition, 0)
        self._left[partition] = records

    def is_behind(self, partition: int, unread: Unread, waiting: int) -> bool:
        """Whether there is much to read, where so many records wait for the learner, or what is old
        goes by faster than the clock. Records that are always as old are no backlog, and neither
        are the few of a clock that is behind."""
        now, clock, times = time.monotonic(), time.time(), unread.times
        first, last = _median(times[: BEHIND + 1]), _median(times[-1 - BEHIND :])
        latest = min(max(times), clock)
        seen_latest, at = self._seen.get(partition, (first, now))
        self._seen[partition] = max(latest, seen_latest), now
        rate = self._rates.setdefault(partition, _ArrivalRate(unread.end, now)).look(
            unread.end, now
        )
        old = sum(clock - seconds > OLD_SECONDS for seconds in times)
        if clock - last > OLD_SECONDS:  # and so may be what lies behind it
            old = unread.records
        if old and latest - min(first, seen_latest) > OLD_SECONDS + 2 * (now - at):
            return True
        share = MANY_RECORDS / len(self._left)
        if unread.records > max(share, rate) and self._all_left + waiting > MANY_RECORDS:
            return True
        return old > max(FEW_RECORDS, rate)


def _median(times: Sequence[float]) -> float:
    """The middle of a few times, of two the lower."""
    return sorted(times)[(len(times) - 1) // 2]
