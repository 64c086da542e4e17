"""The brokers' time: what they take or refuse by its timestamp goes by theirs, never by ours."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

WARN_SECONDS = 60.0


class BrokerClock:
    """Where the brokers' clock is, by the last look at it; ours until the first."""

    def __init__(self) -> None:
        self.skew = 0.0
        """Seconds by which the brokers are ahead of this machine, as far as that is sure."""
        self._looked: tuple[float, float] | None = None

    def look(self, before: float, theirs: float, after: float) -> None:
        """Note a time of theirs, in seconds since 1970, that lies between two of ours."""
        self.skew = min(theirs - before, 0.0) + max(theirs - after, 0.0)
        # From here on by the clock that nobody sets.
        self._looked = after + self.skew, time.monotonic()
        if abs(self.skew) > WARN_SECONDS:
            log.warning(
                "this machine's clock is %.0f s %s the brokers': theirs counts for the timestamps"
                " that topics take; set this one",
                abs(self.skew), "behind" if self.skew > 0 else "ahead of",
            )  # fmt: skip

    def now_ms(self) -> int:
        """Their time now, in milliseconds."""
        if self._looked is None:
            return int(time.time() * 1000)
        theirs, at = self._looked
        return int((theirs + time.monotonic() - at) * 1000)
