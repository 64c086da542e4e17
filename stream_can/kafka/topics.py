"""The topics of an application: required rights and configuration."""

from __future__ import annotations

from typing import NamedTuple

from stream_can.kafka.client.options import MESSAGE_BYTES
from stream_can.kafka.settings import Settings

__all__ = ["Topic", "topics_of"]

DAY_MS = 24 * 3600 * 1000


class Topic(NamedTuple):
    """Requirements of a topic."""

    rights: frozenset[str]
    partitions: int | None
    """Number of partitions; None: as many as the input."""
    configs: dict[str, str]
    """Configuration for creating it."""
    compacted: bool | None = None
    """Whether it must be compacted; None where either is fine."""
    record_bytes: int = 0
    """Maximum size of a record, where known."""
    any_number: bool = False
    """Whether it may have any number of partitions."""
    appended: bool = False
    """Whether its records must carry the time of writing."""


def topics_of(
    settings: Settings,
    *,
    corrects: bool = False,
    learns: bool = False,
    serves: bool = False,
    state_bytes: int,
) -> dict[str, Topic]:
    """The topics of an application except the input, by name, with the rights of a process that
    corrects the input, learns, or answers requests."""
    s = settings
    of = None if s.input else 1  # number of partitions; any where there is no input
    state, dead_letters = s.state_topic, s.dead_letters
    larger = {"max.message.bytes": str(2 * MESSAGE_BYTES)}
    largest = {"max.message.bytes": str(max(MESSAGE_BYTES, 2 * state_bytes))}
    appended = {"message.timestamp.type": "LogAppendTime"}
    compact = {
        "cleanup.policy": "compact",
        "segment.bytes": str(max(16 << 20, 4 * state_bytes)),
        "min.cleanable.dirty.ratio": "0.1",
    }
    write, read = {"WRITE"}, {"READ"}
    answers = corrects or bool(learns and s.input and s.backlog == "ordered")
    topics = {
        state: Topic(
            frozenset(read | (write if learns else set())), 2, largest | appended | compact,
            compacted=True, record_bytes=state_bytes, appended=True,
        ),
        s.sent_topic: Topic(
            frozenset((write if answers or serves else set()) | (read if learns else set())), of,
            larger | appended | {"retention.ms": str(DAY_MS)}, compacted=False, appended=True,
            any_number=not s.input,
        ),
    }  # fmt: skip
    if corrects or learns:
        topics[dead_letters] = Topic(
            frozenset(write), of, larger, compacted=False, any_number=not s.input
        )
    if answers:
        topics[s.output] = Topic(frozenset(write), None, larger)
    for topic in s.topics_of_labels:
        rights = (read if learns else set()) | (write if serves and topic == s.labels else set())
        if rights:
            topics[topic] = Topic(frozenset(rights), of, {}, any_number=True)
    if learns and s.ask is not None:
        topics[s.requests_topic] = Topic(frozenset(write), of, {}, any_number=not s.input)
    return topics
