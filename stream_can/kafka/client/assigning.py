"""Assignment of partitions by the group's leader."""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors
from kafka.coordinator.assignors.range import RangePartitionAssignor

__all__ = ["CommonRange"]


class _Common:
    """The cluster for an assignor, restricted to partitions that all topics have.

    Raises
    ------
    StaleMetadata
        A topic is unknown, as to a client that has just connected; the join is retried. (Trap: an
        assignment made without it would stay until the next rebalance, which nothing triggers if
        the leader has restarted by then: nobody would own a partition.)
    """

    def __init__(self, cluster: Any, topics: set[str]) -> None:
        of = {topic: set(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        unknown = sorted(topic for topic, numbers in of.items() if not numbers)
        if unknown:
            raise kafka_errors.StaleMetadata(f"not known yet: {', '.join(unknown)}")
        self._common = set.intersection(*of.values()) if of else set()

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self._common


class CommonRange(RangePartitionAssignor):  # type: ignore[misc]
    """Kafka's range assignor over the partitions that input and labels both have: while partitions
    are added, one topic has more. It keeps the name, so that all releases can share a group.
    """

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> Any:
        topics = {topic for member in members for topic in member.metadata.topics}
        return super().assign(_Common(cluster, topics), members)
