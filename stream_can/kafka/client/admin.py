"""Admin: what brokers say of topics, rights and the consumer group."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove

from stream_can.kafka.client.connecting import connect
from stream_can.kafka.client.guards import DeniedError, RetryError, classify, close, within
from stream_can.kafka.client.options import Options

Rights = Mapping[str, set[str]]
"""Required rights for each topic."""
NO_COORDINATOR_YET = (
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.NotCoordinatorError,
)
COORDINATOR_SECONDS = 8.0
"""Seconds for a coordinator to load, or for a new cluster to create its transaction topic."""


class Admin:
    """kafka-python's admin client, connected; a context manager.

    Parameters
    ----------
    options
        Brokers and client options.
    group
        The consumer group to query and change; None for none.

    Raises
    ------
    RetryError
        No broker answers (yet).
    DeniedError
        An error that waiting does not cure.
    """

    def __init__(self, options: Options, group: str | None) -> None:
        self.group = group
        self._admin = connect(options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        """Close it."""
        close(self._admin)

    def ask(self, seconds: float, name: str, *args: Any) -> Any:
        """Call a method of kafka-python's client with a time limit.

        Waits for a coordinator that is not ready yet, as in a new cluster.
        """
        deadline = time.monotonic() + COORDINATOR_SECONDS
        while True:
            try:
                return within(seconds, getattr(self._admin, name), *args, otherwise=RetryError)
            except RetryError as error:
                loading = isinstance(error.__cause__, NO_COORDINATOR_YET)
                if not loading or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    # -- topics ----------------------------------------------------------------------------------

    def described(self, needed: Rights) -> dict[str, Any]:
        """Describe topics by name, without those that do not exist.

        Raises
        ------
        DeniedError
            Without any right to a topic, brokers do not tell whether it exists.
        RetryError
            A topic has a temporary fault, such as a partition without a leader.
        """
        topics = self.ask(15, "describe_topics", sorted(needed))
        described = {}
        no_right = kafka_errors.TopicAuthorizationFailedError.errno
        hidden = {topic["name"]: set[str]() for topic in topics if topic["error_code"] == no_right}
        self._refuse_lacking(needed, hidden, *(self._lacking_of_group() if hidden else ()))
        for topic in topics:
            error = kafka_errors.for_code(topic["error_code"])
            if error is kafka_errors.NoError:
                described[topic["name"]] = topic
            elif error is not kafka_errors.UnknownTopicOrPartitionError:
                raise classify(error(f"topic {topic['name']!r}"), RetryError)
        return described

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """The ids of topics: another one of the same name has another id."""
        described = self.described({name: set() for name in names})
        return {name: str(topic["topic_id"]) for name, topic in described.items()}

    def _refuse_lacking(self, needed: Rights, granted: Rights, *lacking_of_group: str) -> None:
        lacking = [
            f"{right} on topic {name}"
            for name in needed
            if name in granted  # brokers list them in any order
            for right in sorted(needed[name] - granted[name])
        ]
        if lacking or lacking_of_group:
            raise DeniedError(f"rights missing: {', '.join([*lacking, *lacking_of_group])}")

    def require_rights(self, needed: Rights, topics: dict[str, Any]) -> None:
        """Raise DeniedError naming every missing right on topics and the group."""
        # Trap: without the right to read, an assignment stays empty for ever; without the right to
        # write, only the future of a record fails.
        granted = {name: _operations(topic) for name, topic in topics.items()}
        self._refuse_lacking(needed, granted, *self._lacking_of_group())

    def _lacking_of_group(self) -> list[str]:
        """The missing right on the group, if any."""
        if self.group is None:
            return []
        try:
            groups = self.ask(15, "describe_groups", [self.group])
        except DeniedError:
            groups = {self.group: {}}
        group = groups[self.group]
        # A group without members so far has an error as well, and no rights to inspect.
        new = group.get("error") and "Authorization" not in group["error"]
        lacking = not new and "READ" not in _operations(group)
        return [f"READ on group {self.group}"] * lacking

    def configs_of(self, topics: Mapping[str, Any]) -> dict[str, Any]:
        """Read the configuration of each topic, where permitted.

        Trap: the answer is also empty for a new topic that the broker does not know yet.
        """
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
        deadline = time.monotonic() + COORDINATOR_SECONDS
        while True:
            described: dict[str, Any] = self.ask(15, "describe_configs", resources, False, "all")[
                "topic"
            ]
            described = {name: configs for name, configs in described.items() if configs}
            unknown = [
                name
                for name in sorted(topics.keys() - described.keys())
                if "DESCRIBE_CONFIGS" in _operations(topics[name])
            ]
            if not unknown:
                return described
            if time.monotonic() > deadline:
                raise RetryError(f"a broker does not know yet: {', '.join(unknown)}")
            time.sleep(0.2)

    # -- the group -------------------------------------------------------------------------------

    def group_is_new(self) -> bool:
        """Whether the group has no members and no committed offsets."""
        groups = self.ask(15, "describe_groups", [self.group])
        offsets = self.ask(15, "list_group_offsets", [self.group])
        return not groups[self.group].get("members") and not offsets.get(self.group)

    def owned(self, topic: str) -> set[int] | None:
        """The partitions of a topic that are assigned; None during a rebalance."""
        group = self.ask(15, "describe_groups", [self.group])[self.group]
        if group["group_state"] != "Stable":
            return None
        return {
            partition
            for member in group["members"]
            for share in member["member_assignment"]["assigned_partitions"]
            if share["topic"] == topic
            for partition in share["partitions"]
        }

    def committed(self, topic: str) -> dict[int, int]:
        """Next offset of each partition of a topic that the group has committed."""
        offsets = self.ask(15, "list_group_offsets", [self.group])[self.group]
        return {
            tp.partition: position.offset for tp, position in offsets.items() if tp.topic == topic
        }

    def set_offsets(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets of a group without members."""
        done = within(15, self._admin.alter_group_offsets, self.group, positions)
        for error in done.values():
            if error is not kafka_errors.NoError:
                raise classify(error(f"offsets of group {self.group!r}"), DeniedError)

    def remove_member(self, instance_id: str) -> None:
        """Remove a static member at once, without waiting for its session to time out."""
        member = MemberToRemove(group_instance_id=instance_id)
        within(5, self._admin.remove_group_members, self.group, [member])


def _operations(described: Mapping[str, Any]) -> set[str]:
    return set(described.get("authorized_operations") or ())
