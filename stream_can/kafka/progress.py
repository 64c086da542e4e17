"""Progress of a worker, and how far it is behind."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection

from stream_can.app.metrics import Metrics
from stream_can.kafka.client.member import Member

__all__ = ["LagWatch", "Progress"]

EVERY_SECONDS = 2.0
LAG_SECONDS = 5.0
"""Maximum age in seconds of the lag in /metrics."""


class LagWatch:
    """The lag of a worker, for /metrics and its page."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics, self._asked = metrics, 0.0
        self.total: int | None = None

    def look(self, member: Member, partitions: Collection[int]) -> None:
        """Query the lag of assigned partitions, if due."""
        due = time.monotonic() - self._asked >= LAG_SECONDS
        if not due or not partitions or member.rebalanced:
            return
        self._asked = time.monotonic()
        lag = member.lag(partitions)
        self.total = sum(lag.values())
        self._metrics.lags({("input", p): n for p, n in lag.items()})


class Progress:
    """A line on a terminal, renewed every few seconds; none where standard error is a file."""

    def __init__(self) -> None:
        self._shown = time.monotonic()
        self._before = 0
        self._terminal = sys.stderr.isatty()

    def show(self, records: int, lag: int | None, suffix: Callable[[], str]) -> None:
        """Show the line with the number of committed records, if due."""
        now = time.monotonic()
        if not self._terminal or now - self._shown < EVERY_SECONDS:
            return
        rate = (records - self._before) / (now - self._shown)
        self._shown, self._before = now, records
        waiting = "?" if lag is None else lag
        sys.stderr.write(f"\r\x1b[K{records} records, {rate:.0f}/s, lag {waiting}{suffix()}")
        sys.stderr.flush()

    def end(self) -> None:
        """End the line."""
        if self._terminal:
            sys.stderr.write("\n")
