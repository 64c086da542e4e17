"""Is the worker alive, and is it ready?"""

from __future__ import annotations

import time


class Health:
    """Health of the loop, read from other threads."""

    def __init__(self, live_seconds: float) -> None:
        self.live_seconds = live_seconds
        self.ready = False
        self.waits_for: str | None = None
        """Why records that came are not taken, where somebody else has to answer first."""
        self.cannot_learn: str | None = None
        """Why this process may not be the application's learner any more."""
        self.refuses_labels: str | None = None
        """Why a server takes no labels now, though it corrects."""
        self._beat = time.monotonic()

    def beat(self) -> None:
        """The loop came round."""
        self._beat = time.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._beat

    @property
    def live(self) -> bool:
        """Whether the loop came round within ``live_seconds``."""
        return self.silence <= self.live_seconds
