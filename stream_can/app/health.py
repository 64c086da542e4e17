"""Liveness and readiness of a program."""

from __future__ import annotations

import time


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
        self._beat = time.monotonic()

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
