"""Queue: records of a partition that the learner has read and not played."""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import Any

import numpy as np

from stream_can.kafka.sent_record import SentRecord
from stream_can.learner.order import BEHIND, steady

__all__ = ["Queue", "is_deferred", "latest_of", "size_of"]


class Queue:
    """Records of a partition that have been read but not played, each with its time."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[float, int, Any]] = deque()
        """Time, NaN where unknown, number of rows, and record."""
        self.bytes = self.rows = self.deferred = 0
        """Bytes and rows of the records, and how many of them are deferred batches."""

    @property
    def time(self) -> float:
        """When the first record is due, by the rule of :func:`stream_can.learner.order.steady`: a
        clock that is ahead holds back none behind it. ``-inf`` where it has no time."""
        first, *times = [time for time, _, _ in islice(self.waiting, 1 + BEHIND)]
        if math.isnan(first):
            return -math.inf
        behind = sorted(time for time in times if not math.isnan(time))
        return min(first, behind[(len(behind) - 1) // 2]) if behind else first

    def append(self, time: float, rows: int, record: Any) -> None:
        """Append a record."""
        self.bytes += size_of(record)
        self.rows += rows
        self.deferred += is_deferred(record)
        self.waiting.append((time, rows, record))

    def put_back(self, time: float, rows: int, record: Any) -> None:
        """Put a record back in front."""
        self.append(time, rows, record)
        self.waiting.rotate()

    def take(self) -> tuple[int, Any]:
        """Remove the first record; return its number of rows and the record."""
        _, rows, record = self.waiting.popleft()
        self.bytes -= size_of(record)
        self.rows -= rows
        self.deferred -= is_deferred(record)
        return rows, record


def is_deferred(record: Any) -> bool:
    """Whether a record is a deferred batch."""
    return isinstance(record, SentRecord) and record.is_deferred


def latest_of(record: Any, when: float) -> float:
    """Latest time of a record that is due at a time."""
    if not is_deferred(record):
        return when
    return float(np.nanmax(steady(record.batch.times), initial=when))


def size_of(record: Any) -> int:
    """Approximate size of a record in memory."""
    if isinstance(record, SentRecord):
        return record.size
    return len(record.value or b"") + len(record.key or b"") + 300
