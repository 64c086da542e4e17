"""Assignment of partitions by the group's leader."""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

__all__ = ["CommonRange", "OneOwner"]


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


class OneOwner(AbstractPartitionAssignor):  # type: ignore[misc]
    """Assigns all partitions to one member, and to the same one as long as it is there.

    Each member says in which generation of the group it owned them; of several who did the last
    one keeps them, so that one which was frozen takes nothing back.
    """

    name = "one-owner"

    def __init__(self) -> None:
        self._owned_in = b""
        """Generation of the last assignment, in eight bytes; empty without a partition."""

    def metadata(self, topics: Any) -> Any:
        return ConsumerProtocolSubscription(0, list(topics), self._owned_in)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        owns = any(assignment.partitions())
        self._owned_in = generation.to_bytes(8, "big") if owns else b""

    def assign(self, cluster: Any, members: Any) -> Any:
        topics = {topic for member in members for topic in member.metadata.topics}
        partitions = sorted(_Common(cluster, topics).partitions_for_topic(next(iter(topics))))
        by_name = sorted(
            members, key=lambda member: (member.group_instance_id or "", member.member_id)
        )
        owner = max(by_name, key=lambda member: member.metadata.user_data or b"")
        return {
            member.member_id: ConsumerProtocolAssignment(
                0, [(topic, partitions) for topic in sorted(topics)] if member is owner else [], b""
            )
            for member in members
        }
