"""StatePace: when the next state is due, and of how many rows."""

from __future__ import annotations

import time

__all__ = ["StatePace"]

ROWS, LARGE = 500, 20
"""Rows of a state in a backlog; and the most times as many, where states are large or rows wait."""
MOST_BYTES_A_SECOND = 1 << 20
"""Maximum bytes of states written per second."""


class StatePace:
    """Spaces states by a commit interval, and by their size.

    Parameters
    ----------
    interval
        Seconds between two states, where these are small and few rows wait.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.due = 0.0
        """When the next state is written, by ``time.monotonic``."""
        self.enough_rows = ROWS
        """Rows, or labels, after which it is written earlier."""
        self.most_rows = ROWS
        """The most that it takes: more than enough where it falls behind."""

    @property
    def in_backlog(self) -> bool:
        """Whether more rows wait than a state of the usual size takes."""
        return self.most_rows > self.enough_rows

    def is_due(self, rows: int) -> bool:
        """Whether a state is due where so many rows wait."""
        return rows >= self.enough_rows or time.monotonic() >= self.due

    def wait(self) -> None:
        """Wait for an interval: there is nothing to write."""
        self.due = time.monotonic() + self.interval

    def wrote(self, begin: float, size: int, rows: int) -> None:
        """Note a state: when its writing began, its bytes, and how many rows wait."""
        pause = size / MOST_BYTES_A_SECOND
        self.due = begin + max(self.interval, pause)
        self.enough_rows = int(ROWS * min(max(1.0, pause / self.interval), LARGE))
        # Twice as many where it falls behind, and no fewer before it has nearly caught up.
        growth = 2 if rows > self.most_rows else 1 if 4 * rows > self.most_rows else 0
        most_rows = min(growth * self.most_rows, LARGE * ROWS)
        self.most_rows = max(self.enough_rows, most_rows)
