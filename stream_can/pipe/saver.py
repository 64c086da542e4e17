"""Saver: saves a state now and then."""

from __future__ import annotations

import time
from pathlib import Path

from stream_can import snapshot
from stream_can.pipe.statefile import PipeState

SECONDS, SHARE = 1.0, 0.1
"""Minimum time between saves, and maximum share of the time spent saving."""


class Saver:
    """Saves a state after a number of lines or a time, which grows with the cost of a save."""

    def __init__(self, state: PipeState, path: Path | None, save_every: int) -> None:
        self.state, self.path, self.save_every = state, path, save_every
        self.unsaved = 0
        self.due = time.monotonic() + SECONDS

    @property
    def lines_left(self) -> int:
        """Number of lines until the next save."""
        return self.save_every - self.unsaved

    def seconds_left(self) -> float | None:
        """Seconds until a save is due; None where nothing needs saving."""
        if self.path is None or not self.unsaved:
            return None
        return max(0.0, self.due - time.monotonic())

    def count_lines(self, lines: int) -> None:
        """Count processed lines."""
        self.unsaved += lines
        if self.unsaved >= self.save_every:
            self.save()

    def save_if_due(self) -> None:
        """Save if the time has come."""
        if self.seconds_left() == 0:
            self.save()

    def save(self) -> None:
        """Save now, if a state is kept."""
        started = time.monotonic()
        if self.path is not None:
            snapshot.save(self.state.to_bytes(), self.path)
        ended = time.monotonic()
        self.due = ended + max(SECONDS, (ended - started) * (1 / SHARE - 1))
        self.unsaved = 0
