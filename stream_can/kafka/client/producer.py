"""An idempotent producer without transactions, where at-least-once suffices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka import KafkaProducer

from stream_can.kafka.client import appending
from stream_can.kafka.client.guards import (
    ClientError,
    RebuildError,
    RetryError,
    classify,
    close,
    create_no_topics,
    errors_as,
)
from stream_can.kafka.client.options import MESSAGE_BYTES, Options
from stream_can.messages.records import Header

__all__ = ["Appended", "Producer"]


class Appended(NamedTuple):
    """A record to append."""

    topic: str
    partition: int | None
    """None: chosen by the key."""
    key: bytes | None
    value: bytes
    headers: list[Header] = []  # noqa: RUF012


class Producer:
    """Appends records; opens the client when first needed, and again after a failure.

    Parameters
    ----------
    options
        Brokers and client options.
    largest
        Size of the largest record.
    """

    def __init__(self, options: Options, largest: int = MESSAGE_BYTES) -> None:
        self._options, self.largest = options, largest
        self._producer: Any = None

    def append(self, records: Sequence[Appended], seconds: float) -> None:
        """Append records; return when the brokers have all of them.

        Raises
        ------
        RetryError
            No record was sent.
        RebuildError
            Some may have been appended.
        DeniedError
            A record is refused for good; others may have been appended.
        """
        producer = self._open()
        sent: list[Any] = []
        try:
            with errors_as(RetryError):
                for topic, partition in {(record.topic, record.partition) for record in records}:
                    appending.require(producer, topic, partition or 0)
            with errors_as(RebuildError):
                for record in records:
                    sent.append(
                        producer.send(
                            record.topic,
                            record.value,
                            record.key,
                            record.headers,
                            partition=record.partition,
                        )
                    )
                producer.flush(seconds)
            for future in sent:
                if not future.succeeded():
                    raise classify(
                        future.exception or RebuildError("not acknowledged in time"), RebuildError
                    )
        except ClientError:
            self.close()
            raise

    def _open(self) -> Any:
        if self._producer is None:
            options = self._options.producer
            options.setdefault("max_request_size", max(MESSAGE_BYTES, self.largest))
            with errors_as(RetryError), self._options.noting():
                self._producer = KafkaProducer(**options, enable_idempotence=True, acks="all")
            create_no_topics(self._producer)
        return self._producer

    def close(self) -> None:
        """Close the client and drop undelivered records."""
        producer, self._producer = self._producer, None
        close(producer, 0)
