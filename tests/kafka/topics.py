"""Topics for a test: made, filled and read back with plain kafka-python."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import UnknownTopicOrPartitionError

from tests.programs import PATIENCE, wait

_numbers = itertools.count()


def unique(prefix: str) -> str:
    """A name that no other test or earlier session used."""
    return f"{prefix}-{os.getpid()}-{int(time.time() * 1000) % 10**9}-{next(_numbers)}"


def create(servers: str, topics: dict[str, Any], partitions: int = 2) -> None:
    """Make topics: {name: {config: value}} or {name: {}}."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    new = {
        name: {"num_partitions": configs.pop("partitions", partitions), "configs": configs}
        for name, configs in ((name, dict(c)) for name, c in topics.items())
    }
    admin.create_topics(new, wait_for_metadata=True)
    admin.close()


def delete(servers: str, topic: str) -> None:
    """Delete a topic; it is gone when this returns."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        with contextlib.suppress(UnknownTopicOrPartitionError):
            admin.delete_topics([topic])
        wait("deleted", lambda: topic not in admin.list_topics())
    finally:
        admin.close()


def grow(servers: str, topic: str, partitions: int) -> None:
    """Let a topic have so many partitions; it has them when this returns."""
    admin = KafkaAdminClient(bootstrap_servers=servers)

    def count() -> int:
        return len(admin.describe_topics([topic])[0]["partitions"])

    try:
        if count() < partitions:
            admin.create_partitions({topic: partitions})
        wait(topic, lambda: count() == partitions)
    finally:
        admin.close()


def until_closed(servers: str, topic: str, partitions: int) -> None:
    """Wait until every transaction that wrote to a topic has ended there.

    Offsets may be committed for a while before what was committed with them can be read: each
    partition has an end of the transaction of its own.
    """
    tps = [TopicPartition(topic, p) for p in range(partitions)]
    with contextlib.ExitStack() as stack:
        both: list[KafkaConsumer] = []
        for isolation in ("read_uncommitted", "read_committed"):
            consumer = KafkaConsumer(bootstrap_servers=servers, isolation_level=isolation)
            stack.callback(consumer.close)
            both.append(consumer)
        wait(
            f"nothing is open in {topic}",
            lambda: len({tuple(c.end_offsets(tps).values()) for c in both}) == 1,
        )


def produce(servers: str, *groups: Iterable[tuple[Any, ...]], **options: Any) -> None:
    """Send (topic, partition, key, value[, headers[, timestamp]]), idempotently.

    A group is sent when those before it are stored. Within one, a partition's records may be stored
    before those of another that were sent earlier: their batches fill at other times.
    """
    producer = KafkaProducer(bootstrap_servers=servers, **{"linger_ms": 5, **options})
    for records in groups:
        futures = []
        for topic, partition, key, value, *rest in records:
            headers = rest[0] if rest else None
            stamp = rest[1] if len(rest) > 1 else None
            futures.append(producer.send(topic, value, key, headers, partition, stamp))
        producer.flush(PATIENCE)
        for future in futures:
            future.get(0)
    producer.close()


def read(servers: str, topic: str, partition: int, isolation: str = "read_committed") -> list[Any]:
    """Every record that a partition holds, in order."""
    consumer = KafkaConsumer(
        bootstrap_servers=servers, isolation_level=isolation, auto_offset_reset="earliest"
    )
    tp = TopicPartition(topic, partition)
    try:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        consumer.seek_to_beginning(tp)
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE
        while consumer.position(tp) < end:
            assert time.monotonic() < deadline, f"{topic}-{partition}: no end within {PATIENCE} s"
            found += consumer.poll(500).get(tp, [])
        return found
    finally:
        consumer.close()
