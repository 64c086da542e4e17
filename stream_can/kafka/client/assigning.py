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

__all__ = ["OneOwner", "RangeOwners"]


class _KnownTopics:
    """The cluster for an assignor, to which all topics must be known.

    Raises
    ------
    StaleMetadata
        A topic is unknown, as to a client that has just connected; the join is retried. (Trap: an
        assignment made without it would stay until the next rebalance, which nothing triggers if
        the leader has restarted by then: nobody would own a partition.)
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def partitions_for_topic(self, topic: str) -> set[int]:
        partitions: set[int] | None = self._cluster.partitions_for_topic(topic)
        if not partitions:
            raise kafka_errors.StaleMetadata(f"not known yet: {topic}")
        return partitions


class RangeOwners(RangePartitionAssignor):  # type: ignore[misc]
    """Kafka's range assignor, for topics that the leader knows."""

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> Any:
        return super().assign(_KnownTopics(cluster), members)


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
        known = _KnownTopics(cluster)
        topics = sorted({topic for member in members for topic in member.metadata.topics})
        everything = [(topic, sorted(known.partitions_for_topic(topic))) for topic in topics]
        by_name = sorted(
            members, key=lambda member: (member.group_instance_id or "", member.member_id)
        )
        owner = max(by_name, key=lambda member: member.metadata.user_data or b"")
        return {
            member.member_id: ConsumerProtocolAssignment(
                0, everything if member is owner else [], b""
            )
            for member in members
        }
