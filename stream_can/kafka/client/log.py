"""LogReader: reads a topic in a thread, so that a slow broker cannot block the main loop.

Its consumer is outside the group. While a broker is away, only the freshness of what is read
suffers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka import TopicPartition

from stream_can.kafka.client.consumer import open_consumer
from stream_can.kafka.client.guards import (
    GONE,
    DeniedError,
    RebuildError,
    RetryError,
    close,
    errors_as,
)
from stream_can.kafka.client.options import Options

log = logging.getLogger(__name__)

POLL_MS = 100
PAUSE_SECONDS = 0.02
"""Seconds between two polls that bring records."""
AWAY_SECONDS = 1.0
"""Seconds between two attempts while no broker answers."""
MOST_BYTES = 32 << 20
"""Maximum bytes read ahead of the loop."""


class LogRecords(NamedTuple):
    """Records read from a partition."""

    records: list[Any]
    next: int
    """Next offset: between the last record and here there is none."""


class LogReader:
    """Committed records of some partitions, as they arrive.

    The loop calls `start`, `take` and `close`; the thread fills the buffer that `take` empties.
    Every `start` begins a new assignment, and records of earlier ones are dropped.

    Parameters
    ----------
    options
        Brokers and client options.
    topic
        The topic.
    """

    def __init__(self, options: Options, topic: str) -> None:
        self.topic = topic
        self._options = options
        self._lock = threading.Lock()
        self._wanted: dict[int, int] = {}
        self._assignment = 0
        self._read: dict[int, LogRecords] = {}
        self._bytes = 0
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, offsets: Mapping[int, int]) -> None:
        """Read exactly these partitions, from these offsets on."""
        with self._lock:
            self._wanted = dict(offsets)
            self._assignment += 1
            self._read, self._bytes, self._error = {}, 0, None
        if self._thread is None or not self._thread.is_alive():
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, daemon=True, name="stream-can-log")
            self._thread.start()

    def take(self) -> dict[int, LogRecords]:
        """Return the records since the last call, by partition; does not block.

        Raises
        ------
        RebuildError
            Records at the position were deleted by retention.
        DeniedError
            The topic may not be read.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            read, self._read, self._bytes = self._read, {}, 0
        return read

    def close(self) -> None:
        """Stop the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)
            self._thread = None

    def _run(self) -> None:
        """Poll until `close`; runs in the thread.

        Retries with a new consumer while no broker answers. `take` raises any other error in the
        loop.
        """
        consumer, assignment = None, -1
        while not self._ended.is_set():
            try:
                with errors_as(RetryError):
                    consumer = consumer or open_consumer(self._options)
                    if assignment != self._assignment:
                        assignment = self._assign(consumer)
                    self._poll(consumer, assignment)
            except RetryError as error:
                if isinstance(error.__cause__, GONE):
                    self._fail(RebuildError(str(error)))
                log.warning("topic %r: %s; trying again", self.topic, error)
                close(consumer)
                consumer, assignment = None, -1
                self._ended.wait(AWAY_SECONDS)
            except Exception as error:
                self._fail(error)
                if not isinstance(error, DeniedError):
                    raise
                self._ended.wait(AWAY_SECONDS)
        close(consumer)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            self._error = error

    def _assign(self, consumer: Any) -> int:
        with self._lock:
            offsets, assignment = dict(self._wanted), self._assignment
        consumer.assign([TopicPartition(self.topic, p) for p in offsets])
        for partition, offset in offsets.items():
            consumer.seek(TopicPartition(self.topic, partition), offset)
        return assignment

    def _poll(self, consumer: Any, assignment: int) -> None:
        """Buffer the records of one poll for `take`.

        The position counts even without records: it moves past transaction markers.
        """
        if not self._wanted or self._bytes > MOST_BYTES:
            self._ended.wait(PAUSE_SECONDS)
            return
        polled = consumer.poll(POLL_MS)
        at = {tp.partition: consumer.position(tp, timeout_ms=0) for tp in consumer.assignment()}
        with self._lock:
            if assignment != self._assignment:
                return  # the assignment has changed
            for partition, next_ in at.items():
                records = polled.get(TopicPartition(self.topic, partition), [])
                if next_ is None or (not records and next_ == self._wanted[partition]):
                    continue
                earlier = self._read.get(partition)
                self._read[partition] = LogRecords(
                    [*(earlier.records if earlier else ()), *records], next_
                )
                self._wanted[partition] = next_
                self._bytes += sum(len(record.value or b"") for record in records)
        if polled:
            self._ended.wait(PAUSE_SECONDS)
