"""What is asked and changed beside the stream: topics, rights, sizes, the group."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove

from stream_can.kafka.client.accepts import OVERHEAD_BYTES, Accepts
from stream_can.kafka.client.connecting import connect
from stream_can.kafka.client.guards import DeniedError, RetryError, classify, close, within
from stream_can.kafka.client.options import MESSAGE_BYTES, Options

log = logging.getLogger(__name__)

Rights = Mapping[str, set[str]]
"""What may be done with each topic."""
NO_COORDINATOR_YET = (
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.NotCoordinatorError,
)
_OTHER_MODE = (
    "topic {!r} has {} partitions: learn = 'together' needs 1, 'apart' as many as the input, {}"
)
COORDINATOR_SECONDS = 8.0
"""How long a coordinator may take to load, or a new cluster to make its topic of transactions."""


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

    def ask(self, seconds: float, name: str, *args: Any) -> Any:
        """What a method of kafka-python's client answers within so many seconds.

        A coordinator that does not serve yet, as of a new cluster, is waited for.
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

    def check(
        self, *, reads: Sequence[str], writes: Sequence[str], state: str, learned: str,
        apart: bool, state_bytes: int, create: bool,
    ) -> tuple[dict[str, int], dict[str, Accepts]]:  # fmt: skip
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
        How many partitions each topic has that has one for each of the input, and what each topic
        that is written takes.
        """
        needed = {name: {"READ"} for name in reads} | {name: {"WRITE"} for name in writes}
        needed |= {name: {"READ", "WRITE"} for name in (state, learned)}
        names, first = set(needed), reads[0]
        topics = self._found(needed)
        if first not in topics:  # Trap: who only subscribes to one creates it, with one partition
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
            topics = self._found(needed)
        if create:
            topics = self._extend(needed, topics, partitions, set() if apart else {learned})
        self._check_rights(needed, topics)
        counts = {name: len(topic["partitions"]) for name, topic in topics.items()}
        if not apart and counts.pop(learned) != 1:
            count = len(topics[learned]["partitions"])
            raise DeniedError(_OTHER_MODE.format(learned, count, partitions))
        self._require_no_fewer(counts, first, learned)
        written = {name: topics[name] for name in (*writes, state, learned)}
        return counts, self._accepts(written, state, learned, state_bytes)

    def check_topics(
        self,
        input: str,
        others: Mapping[str, set[str]],
        own: Mapping[str, Any],
        *,
        create: bool,
    ) -> tuple[dict[str, int], dict[str, Accepts]]:
        """Check rights, topics and sizes; make missing topics where ``create`` says so.

        Parameters
        ----------
        input
            Nobody makes it.
        others
            Topics that are only used: by name the rights that are needed.
        own
            The application's own, :class:`stream_can.kafka.topics.Topic` by name.

        Returns
        -------
        How many partitions the input has, and each topic that has one for each of these; and what
        each of its own takes.
        """
        needed: dict[str, set[str]] = {input: {"READ"} if input not in others else set()}
        needed |= {name: set(rights) for name, rights in others.items()}
        needed |= {name: set(topic.rights) for name, topic in own.items()}
        topics = self._found(needed)
        if input not in topics:  # Trap: who only subscribes to one creates it, with one partition
            raise DeniedError(f"input topic {input!r} does not exist; create it first")
        partitions = len(topics[input]["partitions"])
        counts = {name: topic.partitions or partitions for name, topic in own.items()}
        missing = needed.keys() - topics.keys()
        if foreign := sorted(missing - own.keys()):
            raise DeniedError(f"missing topics: {', '.join(foreign)}; create them first")
        if missing and not create:
            told = ", ".join(
                f"{name} ({counts[name]} partitions"
                + "".join(f", {key}={value}" for key, value in own[name].configs.items())
                + ")"
                for name in sorted(missing)
            )
            raise DeniedError(f"missing topics: {told}; create them or use --create-topics")
        if missing:
            self._make({
                name: {"num_partitions": counts[name], "configs": own[name].configs}
                for name in missing
            })  # fmt: skip
            topics = self._found(needed)
        fixed = {name for name, topic in own.items() if topic.partitions is not None}
        if create:
            topics = self._extend(needed, topics, partitions, fixed | set(others))
        self._check_rights(needed, topics)
        found = {name: len(topic["partitions"]) for name, topic in topics.items()}
        for name in fixed:
            if found[name] != own[name].partitions:
                raise DeniedError(
                    f"topic {name!r} has {found[name]} partitions, and needs {own[name].partitions}"
                )
        alike = {name: n for name, n in found.items() if name not in fixed and name not in others}
        self._require_no_fewer(alike | {input: partitions}, input, "")
        return alike | {input: partitions}, self._takes({name: topics[name] for name in own}, own)

    def _takes(self, topics: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Accepts]:
        """What each topic takes; DeniedError where its settings are not as they have to be."""
        found, accepts = self._settings(topics), {}
        for name, topic in own.items():
            configs = found.get(name, {})
            if not configs and (topic.compacted or topic.appended):
                raise DeniedError(f"rights missing: DESCRIBE_CONFIGS on topic {name}")
            if not configs:
                log.warning(
                    "topic %r: its settings may not be read (DESCRIBE_CONFIGS); taken to be deleted"
                    " by time, without bounds on timestamps, of records up to %d bytes: one that it"
                    " refuses stops the worker", name, MESSAGE_BYTES
                )  # fmt: skip
            accepts[name] = takes = Accepts.of(configs)
            if topic.compacted is not None and takes.compacted is not topic.compacted:
                policy = configs["cleanup.policy"]["value"]
                wanted = "compact" if topic.compacted else "delete"
                raise DeniedError(f"topic {name!r} has cleanup.policy={policy}; set it to {wanted}")
            kind = configs.get("message.timestamp.type", {}).get("value")
            if topic.appended and kind != "LogAppendTime":
                raise DeniedError(
                    f"topic {name!r} has message.timestamp.type={kind}; set it to LogAppendTime"
                )
            if topic.record_bytes + OVERHEAD_BYTES > takes.max_bytes:
                raise DeniedError(
                    f"what is learned takes {topic.record_bytes} bytes, but topic {name!r} has"
                    f" max.message.bytes={takes.max_bytes}; raise it, or leave out the matrix"
                    " paths, or take less segments_mb where columns are declared"
                )
        return accepts

    def check_single(
        self, *, labels: str, state: str, learned: str, state_bytes: int, create: bool
    ) -> None:
        """Check rights and sizes of topics of one partition each, as a server's replicas have them;
        make missing ones where ``create`` says so.

        Raises
        ------
        DeniedError
            One is missing, may not be used, or has several partitions.
        """
        needed = {name: {"READ", "WRITE"} for name in (labels, state, learned)}
        topics = self._found(needed)
        missing = sorted(needed.keys() - topics.keys())
        if missing and not create:
            raise DeniedError(
                f"missing topics: {', '.join(missing)}; create them with 1 partition each (state:"
                " cleanup.policy=compact) or set create_topics"
            )
        if missing:
            self._create(dict.fromkeys(missing, 1), (), state, learned, state_bytes)
            topics = self._found(needed)
        self._check_rights(needed, topics)
        for name, topic in topics.items():
            if (count := len(topic["partitions"])) != 1:
                raise DeniedError(f"topic {name!r} has {count} partitions, and replicas need 1")
        self._accepts(topics, state, learned, state_bytes)

    def _require_no_fewer(self, counts: Mapping[str, int], first: str, learned: str) -> None:
        """Raise DeniedError where topics differ and no partitions are being added.

        They are added to one topic after the other, so that one may have more for a while: not
        before anything was done here, and each still has the partitions that were worked.
        """
        odd = [name for name, count in sorted(counts.items()) if count != counts[first]]
        if not odd:
            return
        group = self.ask(15, "describe_groups", [self.group])[self.group]
        offsets = self.ask(15, "list_group_offsets", [self.group])[self.group]
        worked = [tp.partition for tp in offsets if tp.topic == first]
        lost = min(counts.values()) <= max(worked, default=-1)
        if lost or not (worked or group.get("members")):
            if learned in odd:
                raise DeniedError(_OTHER_MODE.format(learned, counts[learned], counts[first]))
            raise DeniedError(
                f"topic {odd[0]!r} has {counts[odd[0]]} partitions, input {first!r} has"
                f" {counts[first]}; they must be equal"
            )

    def _found(self, needed: Rights) -> dict[str, Any]:
        """What the brokers say of these topics, by name, without those that do not exist.

        Raises
        ------
        DeniedError
            Without any right to a topic, a broker does not even say whether it exists.
        RetryError
            A topic has another fault, such as a partition without a leader.
        """
        topics = self.ask(15, "describe_topics", sorted(needed))
        found = {}
        self._refuse_lacking(
            needed,
            {
                topic["name"]: set()
                for topic in topics
                if topic["error_code"] == kafka_errors.TopicAuthorizationFailedError.errno
            },
        )
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
        """Create topics with these numbers of partitions, and wait until all brokers know them."""
        # Outputs and dead letters are larger than the records that they are made from.
        configs = {name: {"max.message.bytes": str(2 * MESSAGE_BYTES)} for name in writes}
        largest = {"max.message.bytes": str(max(MESSAGE_BYTES, 2 * state_bytes))}
        segment = {"segment.bytes": str(max(64 << 20, 4 * state_bytes))}
        configs[state] = {"cleanup.policy": "compact"} | segment | largest
        configs[learned] = {"cleanup.policy": "delete"} | largest
        self._make({
            name: {"num_partitions": count, "configs": configs.get(name, {})}
            for name, count in counts.items()
        })  # fmt: skip

    def _make(self, new: Mapping[str, Any]) -> None:
        """Create topics, and wait until all brokers know them."""
        try:
            self.ask(30, "create_topics", new)
        except RetryError as error:
            if not isinstance(error.__cause__, kafka_errors.TopicAlreadyExistsError):
                raise  # otherwise another instance was faster
        # Trap: a new topic is not at once visible on another broker.
        self.ask(30, "wait_for_topics", sorted(new), 25_000)
        log.info("created topics: %s", ", ".join(sorted(new)))

    def _extend(
        self, needed: Rights, topics: dict[str, Any], partitions: int, but: set[str]
    ) -> dict[str, Any]:
        """Give each topic, ``but`` these, as many partitions as the input has.

        Asked for once, then looked at until it shows: brokers take a moment to tell each other.
        """
        deadline = time.monotonic() + COORDINATOR_SECONDS
        asked: dict[str, int] = {}
        while short := {
            name: partitions
            for name, topic in topics.items()
            if name not in but and len(topic["partitions"]) < partitions
        }:
            if not asked:
                asked = short
                try:
                    self.ask(30, "create_partitions", short)
                except RetryError as error:
                    if not isinstance(error.__cause__, kafka_errors.InvalidPartitionsError):
                        raise  # otherwise another instance was faster
                log.info("%d partitions now: %s", partitions, ", ".join(sorted(short)))
            if time.monotonic() > deadline:
                raise RetryError(f"not {partitions} partitions yet: {', '.join(sorted(short))}")
            time.sleep(0.2)
            topics = self._found(needed)
        return topics

    def _refuse_lacking(self, needed: Rights, given: Rights, *more: str) -> None:
        lacking = [
            f"{right} on topic {name}"
            for name in needed
            if name in given  # which a broker lists in any order
            for right in sorted(needed[name] - given[name])
        ]
        if lacking or more:
            raise DeniedError(f"rights missing: {', '.join([*lacking, *more])}")

    def _check_rights(self, needed: Rights, topics: dict[str, Any]) -> None:
        """Raise DeniedError that names every right that is missing, on topics and the group."""
        # Trap: without the right to read, an assignment stays empty for ever; without the right to
        # write, only the future of a record fails.
        try:
            groups = self.ask(15, "describe_groups", [self.group])
        except DeniedError:
            groups = {self.group: {}}
        group = groups[self.group]
        # A group that nobody has joined yet has an error too, and no rights to look at.
        new = group.get("error") and "Authorization" not in group["error"]
        lacking = not new and "READ" not in _operations(group)
        given = {name: _operations(topic) for name, topic in topics.items()}
        self._refuse_lacking(needed, given, *[f"READ on group {self.group}"] * lacking)

    def _settings(self, topics: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of each topic; without those that may not be read.

        Trap: the answer for a topic that a broker does not know yet, a new one, is empty as well.
        """
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
        deadline = time.monotonic() + COORDINATOR_SECONDS
        while True:
            found: dict[str, Any] = self.ask(15, "describe_configs", asked, False, "all")["topic"]
            found = {name: configs for name, configs in found.items() if configs}
            unknown = [
                name
                for name in sorted(topics.keys() - found.keys())
                if "DESCRIBE_CONFIGS" in _operations(topics[name])
            ]
            if not unknown:
                return found
            if time.monotonic() > deadline:
                raise RetryError(f"a broker does not know yet: {', '.join(unknown)}")
            time.sleep(0.2)

    def _accepts(
        self, topics: Mapping[str, Any], state: str, learned: str, state_bytes: int
    ) -> dict[str, Accepts]:
        """What each topic that is written takes, by its settings.

        Raises
        ------
        DeniedError
            The settings of the state topic may not be read, it is not compacted, the log is not
            deleted by time, or one of the two does not take a record of ``state_bytes``.
        """
        found, accepts = self._settings(topics), {}
        for name in topics:
            configs = found.get(name, {})
            if not configs and name == state:
                raise DeniedError(f"rights missing: DESCRIBE_CONFIGS on topic {state}")
            if not configs:
                log.warning(
                    "topic %r: its settings may not be read (DESCRIBE_CONFIGS); taken to be deleted"
                    " by time, without bounds on timestamps, of records up to %d bytes: one that it"
                    " refuses stops the worker", name, MESSAGE_BYTES
                )  # fmt: skip
            accepts[name] = Accepts.of(configs)
        policy = found[state]["cleanup.policy"]["value"]
        if policy != "compact":
            raise DeniedError(
                f"state topic {state!r} has cleanup.policy={policy}; set it to compact"
            )
        policy = found.get(learned, {}).get("cleanup.policy", {}).get("value", "delete")
        if policy != "delete":
            raise DeniedError(
                f"topic {learned!r} has cleanup.policy={policy}; set it to delete: its records"
                " have no keys to compact by"
            )
        for name in (state, learned):
            limit = accepts[name].max_bytes
            if state_bytes + OVERHEAD_BYTES > limit:
                raise DeniedError(
                    f"what is learned takes {state_bytes} bytes, but topic {name!r} has"
                    f" max.message.bytes={limit}; raise it, or leave out the matrix paths, or take"
                    " less segments_mb where columns are declared"
                )
        return accepts

    # -- the group -------------------------------------------------------------------------------

    def group_is_new(self) -> bool:
        """Whether the group has no members and has committed nothing."""
        groups = self.ask(15, "describe_groups", [self.group])
        offsets = self.ask(15, "list_group_offsets", [self.group])
        return not groups[self.group].get("members") and not offsets.get(self.group)

    def members(self) -> list[str]:
        """Each member's name, its instance id where it is a static one.

        One that was killed is among them until its session times out.
        """
        group = self.ask(15, "describe_groups", [self.group])[self.group]
        return [member["group_instance_id"] or member["client_host"] for member in group["members"]]

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
