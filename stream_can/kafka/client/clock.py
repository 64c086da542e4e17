"""The brokers' clock, by which they accept or refuse timestamps."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

WARN_SECONDS = 60.0


class BrokerClock:
    """Estimate of the brokers' time; this machine's until the first measurement."""

    def __init__(self) -> None:
        self.skew = 0.0
        """Certain lead of the brokers' clock in seconds."""
        self._looked: tuple[float, float] | None = None

    def look(self, before: float, theirs: float, after: float) -> None:
        """Use a broker time, in seconds since 1970, that lies between two local times."""
        self.skew = min(theirs - before, 0.0) + max(theirs - after, 0.0)
        # From here on by the monotonic clock.
        self._looked = after + self.skew, time.monotonic()
        if abs(self.skew) > WARN_SECONDS:
            log.warning(
                "this machine's clock is %.0f s %s the brokers': theirs counts for the timestamps"
                " that topics take; set this one",
                abs(self.skew), "behind" if self.skew > 0 else "ahead of",
            )  # fmt: skip

    def now_ms(self) -> int:
        """The brokers' time now, in milliseconds."""
        if self._looked is None:
            return int(time.time() * 1000)
        theirs, at = self._looked
        return int((theirs + time.monotonic() - at) * 1000)
