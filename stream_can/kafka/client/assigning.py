"""How the group's leader shares partitions out."""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors
from kafka.coordinator.assignors.range import RangePartitionAssignor

__all__ = ["CommonRange"]


class _Common:
    """The cluster as an assignor sees it, with only those partitions that all topics have.

    Raises
    ------
    StaleMetadata
        A topic is not known, as to a client that has just connected. The join is tried again.
        (Trap: what was assigned without it holds until the next rebalance, and nothing brings that
        about if the leader's process has by then started over: nobody would have a partition.)
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
    """Kafka's range, over the partitions that input and labels both have: while partitions are
    added, one of them has more. It keeps the name, so that members of any release share a group.
    """

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> Any:
        topics = {topic for member in members for topic in member.metadata.topics}
        return super().assign(_Common(cluster, topics), members)
