"""Liveness and readiness of a program."""

from __future__ import annotations

import time

ROW_SECONDS = 30.0
"""Failures so many seconds apart or less are one row, though single calls succeed between: a poll
says nothing of brokers that are away."""
AWAY_SECONDS = 10.0
"""Brokers that have not answered for so long are away."""


class Health:
    """Health of the main loop, for other threads."""

    def __init__(self, live_seconds: float) -> None:
        self.live_seconds = live_seconds
        self.ready = False
        self.waits_for: str | None = None
        """Why records wait, where something else must answer first."""
        self.cannot_learn: str | None = None
        """Why this process can no longer be the application's learner."""
        self.refuses_labels: str | None = None
        """Why a server accepts no labels now, although it corrects."""
        self.unlearned = 0.0
        """Seconds for which nobody has learned what this process sends; 0 where somebody may."""
        self._beat = time.monotonic()
        self._missed = self._first_missed = -ROW_SECONDS
        """When no broker answered, at the last time, and at the first of that row."""

    def missed(self) -> float:
        """Record that no broker answered; return for how many seconds none has."""
        now = time.monotonic()
        if now - self._missed > ROW_SECONDS:
            self._first_missed = now
        self._missed = now
        return now - self._first_missed

    @property
    def away(self) -> float:
        """Seconds for which no broker has answered; 0 where they may be there."""
        now = time.monotonic()
        away = now - self._first_missed
        return away if now - self._missed <= ROW_SECONDS and away > AWAY_SECONDS else 0.0

    def beat(self) -> None:
        """Record a turn of the loop."""
        self._beat = time.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since the last turn."""
        return time.monotonic() - self._beat

    @property
    def live(self) -> bool:
        """Whether the last turn was within ``live_seconds``."""
        return self.silence <= self.live_seconds
