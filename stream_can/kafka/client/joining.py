"""Joining the group: a join that is never thrown away, and a time limit with a warning that names
the coordinator."""

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
"""Seconds of joining without a warning."""
LEAST_SECONDS, MOST_SECONDS = 10.0, 20.0


class _Awaited:
    """A join that the next poll awaits, also where it is done by then."""

    is_done = False

    def __init__(self, task: Any) -> None:
        self.add_callback, self.add_errback = task.add_callback, task.add_errback


def keep_join(consumer: Any) -> None:
    """Have the next poll take the result of a join that is under way.

    Trap: it joins again where the join was done before it, between two polls. A consumer that is
    polled without waiting would never be in the group, and one that works between polls would have
    the group assign again and again.
    """
    coordinator = consumer._coordinator
    task = coordinator._join_task
    if task is not None and not isinstance(task, _Awaited):
        coordinator._join_task = _Awaited(task)


class JoinClock:
    """Measures how long a consumer has been joining.

    Trap: a consumer waits 305 s for the answer to its join request. If the coordinator's broker
    hangs, it keeps waiting even when the group has another coordinator by then.

    Parameters
    ----------
    session_seconds
        Approximate time limit of a join, within bounds.
    """

    def __init__(self, session_seconds: float) -> None:
        self._seconds = max(LEAST_SECONDS, min(session_seconds, MOST_SECONDS))
        self.reset()

    def reset(self) -> None:
        """Restart: the consumer is new or closed."""
        self._since: float | None = None
        self._warned = 0.0

    def overdue(self, consumer: Any, topics: Sequence[str] = ()) -> bool:
        """Whether to join with a new consumer instead; logs a warning during a long join.

        Raises
        ------
        RetryError
            Joining takes long and brokers do not know one of the topics: a group that reads a
            deleted topic rebalances for ever.
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
            known = consumer._coordinator._cluster.partitions_for_topic  # cached, no request
            unknown = [name for name in topics if not known(name)]
            if unknown:
                raise RetryError(f"the brokers do not know {', '.join(unknown)}")
            log.warning("waiting for %.0f s to join the group; %s", waited, _coordinator(consumer))
        return waited > self._seconds


def _coordinator(consumer: Any) -> str:
    """Describe the group's coordinator."""
    node = consumer._coordinator.coordinator_id
    if node is None:
        return "no coordinator is known"
    broker = consumer._coordinator._cluster.broker_metadata(node)
    where = f", {broker.host}:{broker.port}" if broker else ""
    return f"its coordinator is broker {str(node).removeprefix('coordinator-')}{where}"
