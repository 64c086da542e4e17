"""Throughput: how many records are done in a second, and how many come."""

from __future__ import annotations

import time
from collections import deque

from stream_can.app.status import Backlog

__all__ = ["Throughput"]

MOST_SECONDS, FEWEST_SECONDS = 60.0, 10.0
"""Over how many seconds at most and at least it is measured."""


class Throughput:
    """Measures what is done, and what comes, over the last minute."""

    def __init__(self) -> None:
        self._course: deque[tuple[float, int, int]] = deque()
        """When, and the sums of the next offsets to be done and of all, of the same partitions."""

    @property
    def looked_at(self) -> float:
        """When something was noted last, by ``time.monotonic``; 0 where it was not."""
        return self._course[-1][0] if self._course else 0.0

    def note(self, done: int, ends: int) -> None:
        """Note the sums of the next offsets to be done, and of all."""
        now = time.monotonic()
        self._course.append((now, done, ends))
        while now - self._course[0][0] > MOST_SECONDS:
            self._course.popleft()

    def clear(self) -> None:
        """Begin anew: the sums are of other partitions."""
        self._course.clear()

    def of(self, waiting: int) -> Backlog:
        """So many records that wait, and how fast they are done, where that is known."""
        first, last = (self._course[0], self._course[-1]) if self._course else ((0.0, 0, 0),) * 2
        seconds = last[0] - first[0]
        if seconds < FEWEST_SECONDS:
            return Backlog(waiting)
        return Backlog(waiting, *((last[k] - first[k]) / seconds for k in (1, 2)))
