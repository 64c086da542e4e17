"""Administration: topics, rights, sizes, and the consumer group."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove

from stream_can.kafka.client.connecting import connect
from stream_can.kafka.client.guards import DeniedError, RetryError, classify, close, within
from stream_can.kafka.client.options import MESSAGE_BYTES, Options
from stream_can.kafka.client.topic_limits import OVERHEAD_BYTES, TopicLimits

log = logging.getLogger(__name__)

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

    def check_topics(
        self,
        input: str,
        foreign_topics: Mapping[str, set[str]],
        own_topics: Mapping[str, Any],
        *,
        create: bool,
        has_begun: Callable[[], bool] = bool,
    ) -> tuple[dict[str, int], dict[str, TopicLimits]]:
        """Check rights, topics and sizes; create missing topics if ``create``.

        Parameters
        ----------
        input
            The input topic, never created; empty for none.
        foreign_topics
            Topics of other owners, with the rights needed.
        own_topics
            The application's topics, :class:`stream_can.kafka.topics.Topic` by name.
        has_begun
            Whether the application has worked before; asked where the group does not tell.

        Returns
        -------
        Number of partitions of the input and of each topic that has one per input partition; and
        the limits of the application's topics.
        """
        needed: dict[str, set[str]] = {}
        if input:
            needed[input] = {"READ"} if input not in foreign_topics else set()
        needed |= {name: set(rights) for name, rights in foreign_topics.items()}
        needed |= {name: set(topic.rights) for name, topic in own_topics.items()}
        topics = self._found(needed)
        # Trap: subscribing to a missing topic creates it, with one partition.
        if input and input not in topics:
            raise DeniedError(f"input topic {input!r} does not exist; create it first")
        partitions = len(topics[input]["partitions"]) if input else 1
        counts = {name: topic.partitions or partitions for name, topic in own_topics.items()}
        missing = needed.keys() - topics.keys()
        if foreign := sorted(missing - own_topics.keys()):
            raise DeniedError(f"missing topics: {', '.join(foreign)}; create them first")
        if missing and not create:
            listing = ", ".join(
                f"{name} ({counts[name]} partitions"
                + "".join(f", {key}={value}" for key, value in own_topics[name].configs.items())
                + ")"
                for name in sorted(missing)
            )
            raise DeniedError(f"missing topics: {listing}; create them or use --create-topics")
        if missing:
            self._make({
                name: {"num_partitions": counts[name], "configs": own_topics[name].configs}
                for name in missing
            })  # fmt: skip
            topics = self._found(needed)
        fixed = {name for name, topic in own_topics.items() if topic.partitions or topic.any_number}
        if create:
            topics = self._extend(needed, topics, partitions, fixed | set(foreign_topics))
        self._check_rights(needed, topics)
        partition_counts = {name: len(topic["partitions"]) for name, topic in topics.items()}
        for name in fixed:
            count, needed_count = partition_counts[name], own_topics[name].partitions
            if not own_topics[name].any_number and count != needed_count:
                raise DeniedError(
                    f"topic {name!r} has {count} partitions, and needs {needed_count}"
                )
        alike = {
            name: n
            for name, n in partition_counts.items()
            if name not in fixed and name not in foreign_topics
        }
        if input:
            alike[input] = partitions
            self._require_no_fewer(alike, input, has_begun)
        return alike, self._takes({name: topics[name] for name in own_topics}, own_topics)

    def _takes(
        self, topics: Mapping[str, Any], own_topics: Mapping[str, Any]
    ) -> dict[str, TopicLimits]:
        """Read the limits of each topic; raise DeniedError where its configuration is
        unsuitable."""
        all_configs, limits = self._settings(topics), {}
        for name, topic in own_topics.items():
            configs = all_configs.get(name, {})
            if not configs and (topic.compacted or topic.appended):
                raise DeniedError(f"rights missing: DESCRIBE_CONFIGS on topic {name}")
            if not configs and "WRITE" in topic.rights:
                log.warning(
                    "topic %r: its settings may not be read (DESCRIBE_CONFIGS); taken to be deleted"
                    " by time, without bounds on timestamps, of records up to %d bytes: one that it"
                    " refuses stops the worker", name, MESSAGE_BYTES
                )  # fmt: skip
            limits[name] = topic_limits = TopicLimits.from_configs(configs)
            policy = configs.get("cleanup.policy", {}).get("value", "delete")
            if topic.compacted is not None and ("compact" in policy) is not topic.compacted:
                required_policy = "compact" if topic.compacted else "delete"
                raise DeniedError(
                    f"topic {name!r} has cleanup.policy={policy}; set it to {required_policy}"
                )
            kind = configs.get("message.timestamp.type", {}).get("value")
            if topic.appended and kind != "LogAppendTime":
                raise DeniedError(
                    f"topic {name!r} has message.timestamp.type={kind}; set it to LogAppendTime"
                )
            if topic.record_bytes and topic.record_bytes + OVERHEAD_BYTES > topic_limits.max_bytes:
                raise DeniedError(
                    f"what is learned takes {topic.record_bytes} bytes, but topic {name!r} has"
                    f" max.message.bytes={topic_limits.max_bytes}; raise it, or leave out the"
                    " matrix paths, or take less segments_mb where columns are declared"
                )
        return limits

    def _require_no_fewer(
        self, counts: Mapping[str, int], first: str, has_begun: Callable[[], bool]
    ) -> None:
        """Raise DeniedError where partition numbers differ and no partitions are being added.

        Topics are extended one after the other, so one may have more for a while: only after
        start-up, and as long as none has lost partitions. Of the learners' group, which commits
        nothing and may have no member at a time, the state tells.
        """
        odd = [name for name, count in sorted(counts.items()) if count != counts[first]]
        if not odd:
            return
        group = self.ask(15, "describe_groups", [self.group])[self.group]
        worked = self.committed(first)
        lost = min(counts.values()) <= max(worked, default=-1)
        if lost or not (worked or group.get("members") or has_begun()):
            raise DeniedError(
                f"topic {odd[0]!r} has {counts[odd[0]]} partitions, input {first!r} has"
                f" {counts[first]}; they must be equal"
            )

    def _found(self, needed: Rights) -> dict[str, Any]:
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
        described = self._found({name: set() for name in names})
        return {name: str(topic["topic_id"]) for name, topic in described.items()}

    def _make(self, new: Mapping[str, Any]) -> None:
        """Create topics; wait until all brokers know them."""
        try:
            self.ask(30, "create_topics", new)
        except RetryError as error:
            if not isinstance(error.__cause__, kafka_errors.TopicAlreadyExistsError):
                raise  # otherwise another instance has created it
        # Trap: other brokers do not know a new topic at once.
        self.ask(30, "wait_for_topics", sorted(new), 25_000)
        log.info("created topics: %s", ", ".join(sorted(new)))

    def _extend(
        self, needed: Rights, topics: dict[str, Any], partitions: int, but: set[str]
    ) -> dict[str, Any]:
        """Extend each topic, except ``but``, to the input's number of partitions.

        Requested once and then polled: brokers take a moment to inform each other.
        """
        deadline = time.monotonic() + COORDINATOR_SECONDS
        requested: dict[str, int] = {}
        while short := {
            name: partitions
            for name, topic in topics.items()
            if name not in but and len(topic["partitions"]) < partitions
        }:
            if not requested:
                requested = short
                try:
                    self.ask(30, "create_partitions", short)
                except RetryError as error:
                    if not isinstance(error.__cause__, kafka_errors.InvalidPartitionsError):
                        raise  # otherwise another instance has done it
                log.info("%d partitions now: %s", partitions, ", ".join(sorted(short)))
            if time.monotonic() > deadline:
                raise RetryError(f"not {partitions} partitions yet: {', '.join(sorted(short))}")
            time.sleep(0.2)
            topics = self._found(needed)
        return topics

    def _refuse_lacking(self, needed: Rights, granted: Rights, *lacking_of_group: str) -> None:
        lacking = [
            f"{right} on topic {name}"
            for name in needed
            if name in granted  # brokers list them in any order
            for right in sorted(needed[name] - granted[name])
        ]
        if lacking or lacking_of_group:
            raise DeniedError(f"rights missing: {', '.join([*lacking, *lacking_of_group])}")

    def _check_rights(self, needed: Rights, topics: dict[str, Any]) -> None:
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

    def _settings(self, topics: Mapping[str, Any]) -> dict[str, Any]:
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
