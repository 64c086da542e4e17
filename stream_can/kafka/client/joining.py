"""A clock for joining the group: a warning that names the coordinator, and an end."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from kafka.structs import MemberState

from stream_can.kafka.client.guards import RetryError

log = logging.getLogger(__name__)

STABLE = MemberState.STABLE
WARN_SECONDS = 5.0
"""How long joining may take without a word."""
LEAST_SECONDS, MOST_SECONDS = 10.0, 20.0


class JoinClock:
    """How long a consumer has been about to join.

    Trap: a consumer waits 305 s for the answer to its request to join. If the coordinator's broker
    hangs it goes on waiting, even when the group has another coordinator by then.

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

    def overdue(self, consumer: Any, topics: Sequence[str] = ()) -> bool:
        """Whether a new consumer should join instead. Says so in the log while it takes long.

        Raises
        ------
        RetryError
            It takes long, and the brokers do not know one of the topics: a group whose members
            read a topic that was deleted shares out its partitions again and again.
        """
        if consumer.group_metadata().state == STABLE:
            self._since = None
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = self._warned = now
        waited = now - self._since
        if now - self._warned > WARN_SECONDS:
            self._warned = now
            known = consumer._coordinator._cluster.partitions_for_topic  # without a request
            unknown = [name for name in topics if not known(name)]
            if unknown:
                raise RetryError(f"the brokers do not know {', '.join(unknown)}")
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
