"""Progress of a worker, for a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

__all__ = ["Progress"]

EVERY_SECONDS = 2.0


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
