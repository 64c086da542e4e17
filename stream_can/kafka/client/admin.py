"""What is asked and changed beside the stream: topics, rights, sizes, the group."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove

from stream_can.kafka.client.connecting import connect
from stream_can.kafka.client.guards import DeniedError, RetryError, classify, close, within
from stream_can.kafka.client.options import MESSAGE_BYTES, Options

log = logging.getLogger(__name__)

COORDINATOR_SECONDS = 8.0
"""How long a coordinator may take to load, or a new cluster to make its topic of transactions."""
OVERHEAD_BYTES = 1_024
"""What a batch with one record weighs beside its key, value and headers, generously."""


_NO_COORDINATOR_YET = (
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.NotCoordinatorError,
)


class Admin:
    """kafka-python's admin client, connected; to be used in a ``with``.

    Parameters
    ----------
    options
        The brokers and the client options.
    group
        The consumer group that is asked about and changed.

    Raises
    ------
    RetryError
        No broker answers (yet).
    DeniedError
        Anything that waiting does not mend.
    """

    def __init__(self, options: Options, group: str) -> None:
        self.group = group
        self._admin = connect(options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        close(self._admin)

    def _ask(self, seconds: float, name: str, *args: Any) -> Any:
        return within(seconds, getattr(self._admin, name), *args, otherwise=RetryError)

    # -- topics ----------------------------------------------------------------------------------

    def check(
        self, *, reads: Sequence[str], writes: Sequence[str], state: str, learned: str,
        apart: bool, state_bytes: int, create: bool,
    ) -> tuple[int, dict[str, int]]:  # fmt: skip
        """Check rights, topics and sizes; make missing topics where ``create`` says so.

        Parameters
        ----------
        reads
            The input topic, then the others that are read.
        writes, state, learned
            The topics of outputs, that of positions and shared records, and the learned log.
        apart
            Whether the log has as many partitions as the input, instead of one.
        state_bytes
            What one shared record takes.

        Returns
        -------
        The number of partitions, which all topics share, and the most bytes of one record of each
        topic that is written.
        """
        names, first = {*reads, *writes, state, learned}, reads[0]
        topics = self._found(names)
        if first not in topics:
            raise DeniedError(f"input topic {first!r} does not exist; create it first")
        partitions = len(topics[first]["partitions"])
        missing = names - topics.keys()
        if missing and not create:
            raise DeniedError(
                f"missing topics: {', '.join(sorted(missing))}; create them with"
                f" {partitions} partitions (state: cleanup.policy=compact; learned:"
                f" {partitions if apart else 1})"
                " or use --create-topics"
            )
        if missing:
            counts = dict.fromkeys(missing, partitions)
            if not apart:
                counts |= dict.fromkeys(missing & {learned}, 1)
            self._create(counts, writes, state, learned, state_bytes)
            topics = self._found(names)
        count = len(topics[learned]["partitions"])
        if count != (partitions if apart else 1):
            raise DeniedError(
                f"topic {learned!r} has {count} partitions: learn = 'together' needs 1, 'apart'"
                f" as many as the input, {partitions}"
            )
        for name, topic in topics.items():
            if len(topic["partitions"]) != partitions and name != learned:
                raise DeniedError(
                    f"topic {name!r} has {len(topic['partitions'])} partitions, input"
                    f" {first!r} has {partitions}; they must be equal"
                )
        self._check_rights(topics, reads, writes, [state, learned])
        return partitions, self._limits([*writes, state, learned], state, learned, state_bytes)

    def _found(self, names: set[str]) -> dict[str, Any]:
        topics = self._ask(15, "describe_topics", sorted(names))
        found = {}
        for topic in topics:
            error = kafka_errors.for_code(topic["error_code"])
            if error is kafka_errors.NoError:
                found[topic["name"]] = topic
            elif error is not kafka_errors.UnknownTopicOrPartitionError:
                raise classify(error(f"topic {topic['name']!r}"), RetryError)
        return found

    def _create(
        self, counts: Mapping[str, int], writes: Sequence[str], state: str, learned: str,
        state_bytes: int,
    ) -> None:  # fmt: skip
        # Outputs and dead letters are larger than the records that they are made from.
        configs = {name: {"max.message.bytes": str(2 * MESSAGE_BYTES)} for name in writes}
        largest = {"max.message.bytes": str(max(MESSAGE_BYTES, 2 * state_bytes))}
        segment = {"segment.bytes": str(max(64 << 20, 4 * state_bytes))}
        configs[state] = {"cleanup.policy": "compact"} | segment | largest
        configs[learned] = {"cleanup.policy": "delete"} | largest
        new = {
            name: {"num_partitions": count, "configs": configs.get(name, {})}
            for name, count in counts.items()
        }
        try:
            self._ask(30, "create_topics", new)
        except RetryError as error:
            if not isinstance(error.__cause__, kafka_errors.TopicAlreadyExistsError):
                raise  # otherwise another instance was faster
        # Trap: a new topic is not at once visible on another broker.
        self._ask(30, "wait_for_topics", sorted(counts), 25_000)
        log.info("created topics: %s", ", ".join(sorted(counts)))

    def _check_rights(
        self, topics: dict[str, Any], reads: Sequence[str], writes: Sequence[str],
        own: Sequence[str],
    ) -> None:  # fmt: skip
        # Trap: without the right to read, an assignment stays empty for ever; without the right to
        # write, only the future of a record fails.
        needed = {name: {"READ"} for name in reads}
        needed |= {name: {"WRITE"} for name in writes}
        needed |= {name: {"READ", "WRITE"} for name in own}
        lacking = [
            f"{right} on topic {name}"
            for name, rights in needed.items()
            for right in sorted(rights - _operations(topics[name]))
        ]
        try:
            groups = self._ask(15, "describe_groups", [self.group])
        except DeniedError:
            groups = {self.group: {}}
        group = groups[self.group]
        new = group.get("error") and "Authorization" not in group["error"]  # not known yet
        if not new and "READ" not in _operations(group):
            lacking.append(f"READ on group {self.group}")
        if lacking:
            raise DeniedError(f"rights missing: {', '.join(lacking)}")

    def _limits(
        self, names: Sequence[str], state: str, learned: str, state_bytes: int
    ) -> dict[str, int]:
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        described = self._ask(15, "describe_configs", asked, False, "all")
        found, limits = described["topic"], {}
        for name in names:
            configs = found.get(name) or {}
            if not configs and name == state:  # Trap: an empty answer means "not allowed"
                raise DeniedError(f"rights missing: DESCRIBE_CONFIGS on topic {state}")
            limits[name] = int(configs.get("max.message.bytes", {}).get("value", MESSAGE_BYTES))
        policy = found[state]["cleanup.policy"]["value"]
        if policy != "compact":
            raise DeniedError(
                f"state topic {state!r} has cleanup.policy={policy}; set it to compact"
            )
        policy = (found.get(learned) or {}).get("cleanup.policy", {}).get("value", "delete")
        if policy != "delete":
            raise DeniedError(
                f"topic {learned!r} has cleanup.policy={policy}; set it to delete: its records"
                " have no keys to compact by"
            )
        for name in (state, learned):
            if state_bytes + OVERHEAD_BYTES > limits[name]:
                raise DeniedError(
                    f"what is learned takes {state_bytes} bytes, but topic {name!r} has"
                    f" max.message.bytes={limits[name]}; raise it, or leave out the matrix paths"
                )
        return limits

    # -- transactions ----------------------------------------------------------------------------

    def last_ended(self, transactional_id: str) -> Literal["commit", "abort"] | None:
        """How the last transaction of an id ended, or will; None where it never had one."""
        deadline = time.monotonic() + COORDINATOR_SECONDS
        while True:
            try:
                found = self._ask(15, "describe_transactions", [transactional_id])
            except RetryError as error:
                if isinstance(error.__cause__, kafka_errors.TransactionalIdNotFoundError):
                    return None
                loading = isinstance(error.__cause__, _NO_COORDINATOR_YET)
                if not loading or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                committed = ("PrepareCommit", "CompleteCommit")
                return "commit" if found[transactional_id].state.value in committed else "abort"

    # -- the group -------------------------------------------------------------------------------

    def group_is_new(self) -> bool:
        """Whether the group has no members and has committed nothing."""
        groups = self._ask(15, "describe_groups", [self.group])
        offsets = self._ask(15, "list_group_offsets", [self.group])
        return not groups[self.group].get("members") and not offsets.get(self.group)

    def set_offsets(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets of a group that has no members."""
        done = within(15, self._admin.alter_group_offsets, self.group, positions)
        for error in done.values():
            if error is not kafka_errors.NoError:
                raise classify(error(f"offsets of group {self.group!r}"), DeniedError)

    def remove_member(self, instance_id: str) -> None:
        """Let a static member go at once, instead of when its session times out."""
        member = MemberToRemove(group_instance_id=instance_id)
        within(5, self._admin.remove_group_members, self.group, [member])


def _operations(described: Mapping[str, Any]) -> set[str]:
    return set(described.get("authorized_operations") or ())
