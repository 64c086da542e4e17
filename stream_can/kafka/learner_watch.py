"""LearnerWatch: a worker notices that nobody learns."""

from __future__ import annotations

import logging
import math
import time

__all__ = ["QUIET_SECONDS", "LearnerWatch"]

log = logging.getLogger(__name__)

LOST_SECONDS = 30.0
"""Where no state follows what was sent for so many seconds, nobody learns."""
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
        self._unlearned_since: float | None = None
        """When the worker first committed something, or something waited for the learner, after the
        newest state; None where nothing did."""
        self._lost = False
        """Whether the log has said that nobody learns."""
        self._tell_stateless_at = 0.0
        """When the log is to say that there is no state; 0 before the first look, inf after."""

    def sent(self) -> None:
        """Note that something was sent."""
        if self._unlearned_since is None:
            self._unlearned_since = time.monotonic()

    def look(self, written: float, waiting: int = 0) -> float:
        """Say in the log when nobody learns, and when somebody does again.

        Parameters
        ----------
        written
            When the newest state came.
        waiting
            Number of records that were handed over and wait for the learner.

        Returns
        -------
        Seconds for which no state has followed what was sent, if more than `LOST_SECONDS`; else 0.
        """
        if self._unlearned_since is not None and self._unlearned_since < written:
            self._unlearned_since = None
        if waiting:
            self.sent()
        now, since = time.monotonic(), self._unlearned_since
        lost = 0.0 if since is None or now - since <= LOST_SECONDS else now - since
        if lost and not self._lost:
            log.warning(
                "what was sent %.0f s ago is in no state yet: nobody learns; %s", lost,
                "records that were handed over wait, others are corrected by the newest one"
                if waiting else "correcting goes on by the newest one",
            )  # fmt: skip
        elif self._lost and not lost:
            log.info("states are written again: somebody learns")
        self._lost = bool(lost)
        return lost

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
