"""LearnerWatch: a worker says in its log that nobody learns."""

from __future__ import annotations

import logging
import math
import time

__all__ = ["QUIET_SECONDS", "LearnerWatch"]

log = logging.getLogger(__name__)

LOST_SECONDS = 30.0
"""After so many seconds without a state, though it sends, the log says that nobody learns."""
QUIET_SECONDS = 10.0
"""After so many seconds without a state for which it waits a worker looks for missing topics."""


class LearnerWatch:
    """Compares when states came with what was sent to be learned.

    Parameters
    ----------
    topic
        Topic of states.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._began = self._sent_at = time.monotonic()
        """When it began, and when the worker last committed something."""
        self._lost = False
        """Whether the log has said that nobody learns."""
        self._tell_stateless_at = 0.0
        """When the log is to say that there is no state; 0 before the first look, inf after."""

    def sent(self) -> None:
        """Note that something was sent."""
        self._sent_at = time.monotonic()

    def look(self, written: float) -> None:
        """Say in the log when no state has come for a while though something was sent to be
        learned, and when one comes again; ``written`` is when the newest one came."""
        written = max(written, self._began)
        lost = self._sent_at > written and time.monotonic() - written > LOST_SECONDS
        if lost and not self._lost:
            log.warning(
                "no state for %.0f s: nobody learns; correcting goes on by the newest one",
                time.monotonic() - written,
            )
        elif self._lost and not lost:
            log.info("states are written again: somebody learns")
        self._lost = lost

    def look_stateless(self) -> None:
        """Say once in the log that nobody has learned yet."""
        now = time.monotonic()
        self._tell_stateless_at = self._tell_stateless_at or now + QUIET_SECONDS
        if now > self._tell_stateless_at:
            self._tell_stateless_at = math.inf
            log.warning(
                "topic %r has no state yet, and nothing is corrected without one: a process that"
                " learns writes it (stream-can learn, or run with learn = true)", self._topic
            )  # fmt: skip
