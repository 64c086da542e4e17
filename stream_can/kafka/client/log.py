"""A thread that reads a topic, as that of states, so that no broker can hold up the loop by it.

It has a consumer of its own, outside the group. A broker that is away costs what is learned
meanwhile its freshness and nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors

from stream_can.kafka.client.consumer import open_consumer
from stream_can.kafka.client.guards import (
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
"""Between two polls that bring something."""
AWAY_SECONDS = 1.0
"""Between two tries while no broker answers."""
MOST_BYTES = 32 << 20
"""Read ahead of the loop."""


GONE = (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError)


class LogRecords(NamedTuple):
    """Records that were read of a partition of the log."""

    records: list[Any]
    next: int
    """Where to read on: no record that counts lies between the last one and here."""


class LogReader:
    """The committed records of some partitions, as they come.

    The loop calls `read`, `take` and `close`; the thread fills what `take` empties. The number of
    the assignment rises with each `read`, so that the thread throws away what it read before that.

    Parameters
    ----------
    options
        The brokers and the client options.
    topic
        The log, or another one.
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

    def read(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        with self._lock:
            self._wanted = dict(offsets)
            self._assignment += 1
            self._read, self._bytes, self._error = {}, 0, None
        if self._thread is None or not self._thread.is_alive():
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, daemon=True, name="stream-can-log")
            self._thread.start()

    def take(self) -> dict[int, LogRecords]:
        """Take what came since the last call, by partition; never waits.

        Raises
        ------
        RebuildError
            The log's retention has passed where it was to read on.
        DeniedError
            It may not be read.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            read, self._read, self._bytes = self._read, {}, 0
        return read

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)
            self._thread = None

    def _run(self) -> None:
        """The thread: poll until `close`.

        While no broker answers it tries again with a new consumer. Any other error waits for
        `take`, which raises it in the loop.
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
                    self._fail(RebuildError(f"{self.topic!r} was deleted under us: {error}"))
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
            wanted, assignment = dict(self._wanted), self._assignment
        consumer.assign([TopicPartition(self.topic, p) for p in wanted])
        for partition, offset in wanted.items():
            consumer.seek(TopicPartition(self.topic, partition), offset)
        return assignment

    def _poll(self, consumer: Any, assignment: int) -> None:
        """Put what one poll brings where `take` finds it.

        The position counts too, where no record came: it moves past the markers of transactions.
        """
        if not self._wanted or self._bytes > MOST_BYTES:
            self._ended.wait(PAUSE_SECONDS)
            return
        polled = consumer.poll(POLL_MS)
        at = {tp.partition: consumer.position(tp, timeout_ms=0) for tp in consumer.assignment()}
        with self._lock:
            if assignment != self._assignment:
                return  # read from other offsets meanwhile
            for partition, next_ in at.items():
                records = polled.get(TopicPartition(self.topic, partition), [])
                if next_ is None or (not records and next_ == self._wanted[partition]):
                    continue
                before = self._read.get(partition)
                self._read[partition] = LogRecords(
                    [*(before.records if before else ()), *records], next_
                )
                self._wanted[partition] = next_
                self._bytes += sum(len(record.value or b"") for record in records)
        if polled:
            self._ended.wait(PAUSE_SECONDS)
