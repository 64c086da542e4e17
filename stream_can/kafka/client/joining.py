"""A clock for joining the group: a warning that names the coordinator, and an end."""

from __future__ import annotations

import logging
import time
from typing import Any

from kafka.structs import MemberState

log = logging.getLogger(__name__)

STABLE = MemberState.STABLE
WARN_SECONDS = 5.0
"""How long joining may take without a word."""
LEAST_SECONDS, MOST_SECONDS = 10.0, 20.0


class JoinClock:
    """How long a consumer has been about to join.

    Trap: a consumer gives its request to join 305 s, and has no clock of its own when its
    coordinator's broker hangs, whoever has become the coordinator since.

    Parameters
    ----------
    session_seconds
        About as long, within bounds, a join may take.
    """

    def __init__(self, session_seconds: float) -> None:
        self._seconds = max(LEAST_SECONDS, min(session_seconds, MOST_SECONDS))
        self.reset()

    def reset(self) -> None:
        """There is a new consumer, or none."""
        self._since: float | None = None
        self._warned = 0.0

    def overdue(self, consumer: Any) -> bool:
        """Whether a new consumer should join instead. Says so in the log while it takes long."""
        if consumer.group_metadata().state == STABLE:
            self._since = None
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = self._warned = now
        waited = now - self._since
        if now - self._warned > WARN_SECONDS:
            self._warned = now
            log.warning("waiting for %.0f s to join the group; %s", waited, _coordinator(consumer))
        return waited > self._seconds


def _coordinator(consumer: Any) -> str:
    """The group's coordinator, in words."""
    node = consumer._coordinator.coordinator_id
    if node is None:
        return "no coordinator is known"
    broker = consumer._coordinator._cluster.broker_metadata(node)
    where = f", {broker.host}:{broker.port}" if broker else ""
    return f"its coordinator is broker {str(node).removeprefix('coordinator-')}{where}"
