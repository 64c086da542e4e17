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
        self._compared: tuple[float, float] | None = None

    def compare(self, asked_at: float, broker_time: float, answered_at: float) -> None:
        """Use a broker time, in seconds since 1970, that lies between two local times."""
        self.skew = min(broker_time - asked_at, 0.0) + max(broker_time - answered_at, 0.0)
        # From here on by the monotonic clock.
        self._compared = answered_at + self.skew, time.monotonic()
        if abs(self.skew) > WARN_SECONDS:
            log.warning(
                "this machine's clock is %.0f s %s the brokers': topics accept timestamps by"
                " theirs; set this one",
                abs(self.skew), "behind" if self.skew > 0 else "ahead of",
            )  # fmt: skip

    def now_ms(self) -> int:
        """The brokers' time now, in milliseconds."""
        if self._compared is None:
            return int(time.time() * 1000)
        broker_time, at = self._compared
        return int((broker_time + time.monotonic() - at) * 1000)
