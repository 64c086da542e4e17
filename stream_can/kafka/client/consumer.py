"""A consumer of kafka-python as everything here reads: explicit offsets, records in bulk."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, TopicPartition

from stream_can.kafka.client import unpacking
from stream_can.kafka.client.assigning import CommonRange
from stream_can.kafka.client.guards import RetryError, create_no_topics, errors_as
from stream_can.kafka.client.options import Options


def open_consumer(options: Options, isolation: str = "read_committed", **more: Any) -> Any:
    """A connected consumer that commits nothing and never chooses an offset by itself."""
    with errors_as(RetryError), options.noting():
        consumer = KafkaConsumer(
            **{**options.consumer, **more},
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="none",
            partition_assignment_strategy=(CommonRange,),
        )
        create_no_topics(consumer)
        unpacking.install(consumer, skip_damaged=options.skip_damaged)
        return consumer


def ends_of(consumer: Any, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The last stable offsets.

    Raises
    ------
    RetryError
        Of one of them no leader is known. (Trap: those are left out, and then looked up.)
    """
    try:
        ends: dict[TopicPartition, int] = consumer.end_offsets(tps, timeout_ms=5_000)
    except KeyError as error:
        if error.args[0] not in tps:
            raise
        raise RetryError(f"no leader is known of {tuple(error.args[0])}") from error
    return ends
