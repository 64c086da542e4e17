"""Reading beside the group: one record, a range, the first and next offsets of a topic."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from kafka import TopicPartition

from stream_can.kafka.client.consumer import ends_of, open_consumer
from stream_can.kafka.client.guards import (
    DeniedError,
    RebuildError,
    RetryError,
    close,
    errors_as,
)
from stream_can.kafka.client.options import Options

QUICK = {"request_timeout_ms": 5_000, "fetch_max_wait_ms": 500}
"""Short, because a restore waits for what is read here: a leader that hangs is given up soon."""
NEAR = 100
"""Offsets so near to each other are read in one go."""
STILL_SECONDS = 30
"""A range without a new record for so long is given up."""


class Readers:
    """Consumers outside the group, one for each isolation level, opened when first needed."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._open: dict[str, Any] = {}

    def close(self) -> None:
        """Close them; the next call opens new ones."""
        readers, self._open = self._open, {}
        for reader in readers.values():
            close(reader)

    def _reader(self, isolation: str) -> Any:
        if isolation not in self._open:
            self._open[isolation] = open_consumer(self._options, isolation, **QUICK)
        return self._open[isolation]

    def read_at(self, topic: str, partition: int, offset: int) -> Any | None:
        """The record at an offset, whether its transaction is settled or not; None if it is gone.

        Read uncommitted, because the offset comes from a committed transaction, and a reader of
        committed records would wait for seconds behind the open one of a dead producer. (Trap: a
        compacted topic answers with the *next* record.)
        """
        for record in self._read(topic, partition, offset, offset + 1, "read_uncommitted"):
            return record if record.offset == offset else None
        return None

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Any]:
        """The committed records of [start, stop), in order."""
        return self._read(topic, partition, start, stop, "read_committed")

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len(self._reader("read_committed").partitions_for_topic(topic) or ())

    def last(self, topic: str, partition: int, key: bytes) -> Any | None:
        """The last committed record with a key; None where there is none. It reads backwards."""
        begin, end = self.span(topic, partition)
        step, stop = 8, end
        while stop > begin:
            start = max(begin, stop - step)
            found = [one for one in self.read(topic, partition, start, stop) if one.key == key]
            if found:
                return found[-1]
            step, stop = 8 * step, start
        return None

    def read_all_at(self, topic: str, partition: int, offsets: Iterable[int]) -> dict[int, Any]:
        """The records at these offsets, as far as they are there, by offset; :meth:`read_at` says
        how."""
        found: dict[int, Any] = {}
        wanted = sorted(offsets)
        while wanted:
            n = 1
            while n < len(wanted) and wanted[n] - wanted[n - 1] < NEAR:
                n += 1
            those = {*wanted[:n]}
            span = wanted[0], wanted[n - 1] + 1
            for record in self._read(topic, partition, *span, "read_uncommitted"):
                if record.offset in those:
                    found[record.offset] = record
            wanted = wanted[n:]
        return found

    def spans(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first offset still held and the next to be written, of every partition."""
        reader = self._reader("read_committed")
        with errors_as(RetryError):
            numbers = sorted(reader.partitions_for_topic(topic) or ())
            tps = [TopicPartition(topic, number) for number in numbers]
            if not tps:
                raise DeniedError(f"topic {topic!r} does not exist, or may not be read")
            return {tp.partition: self.span(*tp) for tp in tps}

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The next offsets to be read of some partitions, in one request to each broker."""
        tps = [TopicPartition(topic, partition) for partition in partitions]
        with errors_as(RetryError):
            found = ends_of(self._reader("read_committed"), tps)
        return {tp.partition: end for tp, end in found.items()}

    def before(self, topic: str, partitions: Iterable[int], time: float) -> dict[int, int | None]:
        """First offset of some partitions at this time, in seconds, or later; None where there
        is none."""
        at = max(0, int(1000 * time))
        asked = {TopicPartition(topic, partition): at for partition in partitions}
        with errors_as(RetryError):
            found = self._reader("read_committed").offsets_for_times(asked, timeout_ms=5_000)
        return {tp.partition: one and one.offset for tp, one in found.items()}

    def span(self, topic: str, partition: int) -> tuple[int, int]:
        """The same of one partition, which exists."""
        reader, tp = self._reader("read_committed"), TopicPartition(topic, partition)
        with errors_as(RetryError):
            # Trap: asked for several, it leaves out those whose leader it does not know yet.
            return (
                reader.beginning_offsets([tp], timeout_ms=10_000)[tp],
                reader.end_offsets([tp], timeout_ms=10_000)[tp],
            )

    def newest(self, topic: str) -> None:
        """Fetch and unpack the newest batch of every partition that has one."""
        spans = self.spans(topic)
        ends = {TopicPartition(topic, p): end for p, (begin, end) in spans.items() if begin < end}
        reader = self._reader("read_committed")
        with errors_as(RetryError):
            reader.assign(list(ends))
            for tp, end in ends.items():
                reader.seek(tp, end - 1)
            deadline = time.monotonic() + STILL_SECONDS
            while any(reader.position(tp, timeout_ms=5_000) < end for tp, end in ends.items()):
                reader.poll(timeout_ms=500)
                if time.monotonic() > deadline:
                    raise RetryError(f"{topic!r} cannot be read to its end in {STILL_SECONDS} s")

    def _read(
        self, topic: str, partition: int, start: int, stop: int, isolation: str
    ) -> Iterator[Any]:
        """The records of [start, stop) that exist, in order.

        It ends where the position reaches ``stop``, since the last offset may hold no record:
        compaction and the markers of transactions leave such gaps.
        """
        tp, reader = TopicPartition(topic, partition), self._reader(isolation)
        with errors_as(RebuildError):
            reader.assign([tp])
            begin = reader.beginning_offsets([tp], timeout_ms=10_000)[tp]
            stop = min(stop, reader.end_offsets([tp], timeout_ms=10_000)[tp])
            reader.seek(tp, max(start, begin))
            deadline = time.monotonic() + STILL_SECONDS
            while reader.position(tp, timeout_ms=5_000) < stop:
                for record in reader.poll(timeout_ms=500).get(tp, ()):
                    if record.offset >= stop:
                        return
                    deadline = time.monotonic() + STILL_SECONDS
                    yield record
                if time.monotonic() > deadline:
                    raise RebuildError(
                        f"no record of {topic}-{partition} from {start} for {STILL_SECONDS} s"
                    )
