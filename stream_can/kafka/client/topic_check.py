"""Check of the topics before the start: missing ones, partitions, rights, and their settings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka import errors as kafka_errors

from stream_can.kafka.client.admin import COORDINATOR_SECONDS, Admin, Rights
from stream_can.kafka.client.guards import DeniedError, RetryError
from stream_can.kafka.client.options import MESSAGE_BYTES
from stream_can.kafka.client.topic_limits import OVERHEAD_BYTES, TopicLimits

__all__ = ["check_topics"]

log = logging.getLogger(__name__)


def check_topics(
    admin: Admin,
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
    admin
        The administration of the brokers, with the group of the application.
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
    topics = admin.described(needed)
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
        _make(admin, {
            name: {"num_partitions": counts[name], "configs": own_topics[name].configs}
            for name in missing
        })  # fmt: skip
        topics = admin.described(needed)
    fixed = {name for name, topic in own_topics.items() if topic.partitions or topic.any_number}
    if create:
        topics = _extend(admin, needed, topics, partitions, fixed | set(foreign_topics))
    admin.require_rights(needed, topics)
    partition_counts = {name: len(topic["partitions"]) for name, topic in topics.items()}
    for name in fixed:
        count, needed_count = partition_counts[name], own_topics[name].partitions
        if not own_topics[name].any_number and count != needed_count:
            raise DeniedError(f"topic {name!r} has {count} partitions, and needs {needed_count}")
    alike = {
        name: n
        for name, n in partition_counts.items()
        if name not in fixed and name not in foreign_topics
    }
    if input:
        alike[input] = partitions
        _require_no_fewer(admin, alike, input, has_begun)
    return alike, _limits_of(admin, {name: topics[name] for name in own_topics}, own_topics)


def _limits_of(
    admin: Admin, topics: Mapping[str, Any], own_topics: Mapping[str, Any]
) -> dict[str, TopicLimits]:
    """Read the limits of each topic; raise DeniedError where its configuration is
    unsuitable."""
    all_configs, limits = admin.configs_of(topics), {}
    for name, topic in own_topics.items():
        configs = all_configs.get(name, {})
        if not configs and (topic.compacted or topic.appended):
            raise DeniedError(f"rights missing: DESCRIBE_CONFIGS on topic {name}")
        if not configs and "WRITE" in topic.rights:
            log.warning(
                "topic %r: no right to read its settings (DESCRIBE_CONFIGS); assuming deletion by"
                " time, no bounds on timestamps and records up to %d bytes: a record that it"
                " refuses"
                " stops the worker", name, MESSAGE_BYTES
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
                f"the learned state takes {topic.record_bytes} bytes, but topic {name!r} has"
                f" max.message.bytes={topic_limits.max_bytes}; raise it, or leave out the"
                " matrix paths, or lower segments_mb where segments are declared"
            )
    return limits


def _require_no_fewer(
    admin: Admin, counts: Mapping[str, int], first: str, has_begun: Callable[[], bool]
) -> None:
    """Raise DeniedError where partition numbers differ and no partitions are being added.

    Topics are extended one after the other, so one may have more for a while: only after
    start-up, and as long as none has lost partitions. Of the learners' group, which commits
    nothing and may have no member at a time, the state tells.
    """
    odd = [name for name, count in sorted(counts.items()) if count != counts[first]]
    if not odd:
        return
    group = admin.ask(15, "describe_groups", [admin.group])[admin.group]
    worked = admin.committed(first)
    lost = min(counts.values()) <= max(worked, default=-1)
    if lost or not (worked or group.get("members") or has_begun()):
        raise DeniedError(
            f"topic {odd[0]!r} has {counts[odd[0]]} partitions, input {first!r} has"
            f" {counts[first]}; they must be equal"
        )


def _make(admin: Admin, new: Mapping[str, Any]) -> None:
    """Create topics; wait until all brokers know them."""
    try:
        admin.ask(30, "create_topics", new)
    except RetryError as error:
        if not isinstance(error.__cause__, kafka_errors.TopicAlreadyExistsError):
            raise  # otherwise another instance has created it
    # Trap: other brokers do not know a new topic at once.
    admin.ask(30, "wait_for_topics", sorted(new), 25_000)
    log.info("created topics: %s", ", ".join(sorted(new)))


def _extend(
    admin: Admin, needed: Rights, topics: dict[str, Any], partitions: int, but: set[str]
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
                admin.ask(30, "create_partitions", short)
            except RetryError as error:
                if not isinstance(error.__cause__, kafka_errors.InvalidPartitionsError):
                    raise  # otherwise another instance has done it
            log.info("%d partitions now: %s", partitions, ", ".join(sorted(short)))
        if time.monotonic() > deadline:
            raise RetryError(f"not {partitions} partitions yet: {', '.join(sorted(short))}")
        time.sleep(0.2)
        topics = admin.described(needed)
    return topics
