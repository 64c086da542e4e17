"""Create consumers with explicit offsets and bulk reading of records."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, TopicPartition

from stream_can.kafka.client import unpacking
from stream_can.kafka.client.guards import RetryError, create_no_topics, errors_as
from stream_can.kafka.client.options import Options


def open_consumer(options: Options, isolation: str = "read_committed", **overrides: Any) -> Any:
    """Return a connected consumer that never commits and never chooses offsets itself."""
    with errors_as(RetryError), options.noting():
        consumer = KafkaConsumer(
            **{**options.consumer, **overrides},
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="none",
        )
        create_no_topics(consumer)
        unpacking.install(consumer, skip_damaged=options.skip_damaged)
        return consumer


def ends_of(consumer: Any, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The last stable offsets.

    Raises
    ------
    RetryError
        A partition has no known leader. (Trap: it is left out of the answer, then looked up.)
    """
    try:
        ends: dict[TopicPartition, int] = consumer.end_offsets(tps, timeout_ms=5_000)
    except KeyError as error:
        if error.args[0] not in tps:
            raise
        raise RetryError(f"no leader is known of {tuple(error.args[0])}") from error
    return ends
