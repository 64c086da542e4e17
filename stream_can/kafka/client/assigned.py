"""A consumer outside any group, for given partitions and offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka import TopicPartition

from stream_can.kafka.client import unpacking
from stream_can.kafka.client.consumer import open_consumer
from stream_can.kafka.client.guards import GONE, RebuildError, RetryError, close, errors_as
from stream_can.kafka.client.high_watermarks import HighWatermarks
from stream_can.kafka.client.options import Options

__all__ = ["Assigned"]

Place = tuple[str, int]
"""Topic and partition."""


class Assigned:
    """Committed records of some partitions.

    Parameters
    ----------
    options
        Brokers and client options.
    """

    def __init__(self, options: Options) -> None:
        self._consumer: Any = open_consumer(options)
        self._watermarks = HighWatermarks(self._consumer)
        self._held: set[TopicPartition] = set()

    def start(self, places: Mapping[Place, int]) -> None:
        """Read exactly these partitions, each from an offset."""
        for place in [(tp.topic, tp.partition) for tp in self._held]:
            self.hold(place, False)
        self._consumer.assign([TopicPartition(*place) for place in places])
        for place, offset in places.items():
            self._consumer.seek(TopicPartition(*place), offset)
            self._watermarks.forget(TopicPartition(*place))

    def poll(self, wait_ms: int) -> dict[Place, list[Any]]:
        """Poll; return records by partition.

        Raises
        ------
        RebuildError
            The next record to read is gone.
        RetryError
            No broker answers.
        """
        unpacking.unpark(self._consumer)
        try:
            with errors_as(RetryError):
                polled = self._consumer.poll(wait_ms)
        except RetryError as error:
            if isinstance(error.__cause__, GONE):
                raise RebuildError(str(error)) from error
            raise
        return {(tp.topic, tp.partition): records for tp, records in polled.items()}

    def behind(self, places: Iterable[Place]) -> list[Place]:
        """Partitions among these that are known to have more to read."""
        unread = []
        for place in places:
            tp = TopicPartition(*place)
            end = self._watermarks.end_of(tp)
            with errors_as(RetryError):
                at = self._consumer.position(tp, timeout_ms=0)
            if end is None or at is None or at < end:
                unread.append(place)
        return unread

    def spans(self) -> dict[Place, tuple[int, int]]:
        """Position and last known end of each partition, where both are known."""
        spans = {}
        for tp in self._consumer.assignment():
            end = self._watermarks.last_of(tp)
            with errors_as(RetryError):
                at = self._consumer.position(tp, timeout_ms=0)
            if end is not None and at is not None:
                spans[tp.topic, tp.partition] = at, max(at, end)
        return spans

    def require_known(self) -> None:
        """Raise RetryError where brokers no longer know a topic: polls do not report deleted
        topics."""
        for topic in sorted({tp.topic for tp in self._consumer.assignment()}):
            with errors_as(RetryError):
                if not self._consumer.partitions_for_topic(topic):
                    raise RetryError(f"the brokers do not know {topic!r}")

    def hold(self, place: Place, held: bool) -> None:
        """Pause or resume a partition."""
        tp = TopicPartition(*place)
        if held == (tp in self._held):
            return
        (self._consumer.pause if held else self._consumer.resume)(tp)
        if held:
            self._held.add(tp)
        else:  # it was not fetched for a while: its known end is stale
            self._held.remove(tp)
            self._watermarks.forget(tp)

    def close(self) -> None:
        """Close it."""
        consumer, self._consumer = self._consumer, None
        close(consumer)
