"""Reading outside the group: single records, ranges, first and next offsets of a topic."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from kafka import TopicPartition
from numpy.typing import NDArray

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
"""Fetch time-out; short, because a restore waits for these reads and a leader may hang."""
NEAR = 100
"""Offsets at most this far apart are read in one range."""
FEW = 9
"""Records that are looked at to tell the time of what comes next."""
FEW_BYTES = 1 << 14
"""Bytes of a partition that are fetched for them; a broker sends a whole batch at least."""
END = 1 << 63
"""Beyond every offset."""
STILL_SECONDS = 30
"""Seconds without a new record after which reading a range is abandoned."""


class Readers:
    """Consumers outside the group, one per isolation level, and one that reads few records; opened
    when first needed."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._open: dict[tuple[str, bool], Any] = {}

    def close(self) -> None:
        """Close the consumers; later calls open new ones."""
        readers, self._open = self._open, {}
        for reader in readers.values():
            close(reader)

    def _reader(self, isolation: str, few: bool = False) -> Any:
        if (isolation, few) not in self._open:
            more = {"max_partition_fetch_bytes": FEW_BYTES} if few else {}
            self._open[isolation, few] = open_consumer(self._options, isolation, **QUICK, **more)
        return self._open[isolation, few]

    def read_at(self, topic: str, partition: int, offset: int) -> Any | None:
        """The record at an offset, whether or not its transaction is settled; None if it is gone.

        Reads uncommitted: the offset comes from a committed transaction, and reading committed
        would wait for seconds behind a dead producer's open one. (Trap: a compacted topic answers
        with the *next* record.)
        """
        for record in self._records(topic, {partition: (offset, offset + 1)}, "read_uncommitted"):
            return record if record.offset == offset else None
        return None

    def read_span(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Any]:
        """Committed records of [start, stop), in order."""
        return self._records(topic, {partition: (start, stop)}, "read_committed")

    def read_spans(self, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[Any]:
        """Committed records of [start, stop) of several partitions, in order within each."""
        return self._records(topic, spans, "read_committed")

    def partitions(self, topic: str) -> int:
        """Number of partitions of a topic."""
        with errors_as(RetryError):
            return len(self._reader("read_committed").partitions_for_topic(topic) or ())

    def last(self, topic: str, partition: int, key: bytes) -> Any | None:
        """The last committed record with a key, found by reading backwards; None without one."""
        begin, end = self.span(topic, partition)
        step, stop = 8, end
        while stop > begin:
            start = max(begin, stop - step)
            records = self.read_span(topic, partition, start, stop)
            matches = [record for record in records if record.key == key]
            if matches:
                return matches[-1]
            step, stop = 8 * step, start
        return None

    def read_all_at(self, topic: str, partition: int, offsets: Iterable[int]) -> dict[int, Any]:
        """Existing records at these offsets, by offset; see :meth:`read_at`."""
        by_offset: dict[int, Any] = {}
        missing = sorted(offsets)
        while missing:
            n = 1
            while n < len(missing) and missing[n] - missing[n - 1] < NEAR:
                n += 1
            near = {*missing[:n]}
            span = {partition: (missing[0], missing[n - 1] + 1)}
            for record in self._records(topic, span, "read_uncommitted"):
                if record.offset in near:
                    by_offset[record.offset] = record
            missing = missing[n:]
        return by_offset

    def spans(self, topic: str) -> dict[int, tuple[int, int]]:
        """First available offset and next offset to be written, of every partition."""
        reader = self._reader("read_committed")
        with errors_as(RetryError):
            numbers = sorted(reader.partitions_for_topic(topic) or ())
            tps = [TopicPartition(topic, number) for number in numbers]
            if not tps:
                raise DeniedError(f"topic {topic!r} does not exist, or may not be read")
            return {tp.partition: span for tp, span in _spans(reader, tps).items()}

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Next offsets to be read, with one request per broker."""
        tps = [TopicPartition(topic, partition) for partition in partitions]
        with errors_as(RetryError):
            ends = ends_of(self._reader("read_committed"), tps)
        return {tp.partition: end for tp, end in ends.items()}

    def following(
        self, topic: str, partition: int, offset: int,
        times_of: Callable[[Sequence[Any]], NDArray[np.float64]],
    ) -> float | None:  # fmt: skip
        """Time, by ``times_of``, of what comes at an offset, in seconds: the median of the first
        records there, as few clocks may be wrong; None where none has a time, ``inf`` where there
        is no record, as behind the last transaction of whoever writes.

        (Trap: a search by time finds the first record that is as late, also one whose clock is
        ahead.)
        """
        following = self._records(topic, {partition: (offset, END)}, "read_committed", most=FEW)
        records = list(islice(following, FEW))
        if not records:
            return math.inf
        all_times: list[float] = times_of(records).tolist()
        times = sorted(moment for moment in all_times if not math.isnan(moment))
        return times[(len(times) - 1) // 2] if times else None

    def span(self, topic: str, partition: int) -> tuple[int, int]:
        """First available and next offset of an existing partition."""
        reader, tp = self._reader("read_committed"), TopicPartition(topic, partition)
        with errors_as(RetryError):
            return _spans(reader, [tp])[tp]

    def newest(self, topic: str) -> None:
        """Fetch and unpack the newest batch of every partition."""
        spans = self.spans(topic)
        ends = {TopicPartition(topic, p): end for p, (begin, end) in spans.items() if begin < end}
        reader = self._reader("read_committed")
        with errors_as(RetryError):
            _assign(reader, list(ends))
            for tp, end in ends.items():
                reader.seek(tp, end - 1)
            deadline = time.monotonic() + STILL_SECONDS
            while any(reader.position(tp, timeout_ms=5_000) < end for tp, end in ends.items()):
                reader.poll(timeout_ms=500)
                if time.monotonic() > deadline:
                    raise RetryError(f"{topic!r} cannot be read to its end in {STILL_SECONDS} s")

    def _records(
        self, topic: str, spans: Mapping[int, tuple[int, int]], isolation: str,
        most: int | None = None,
    ) -> Iterator[Any]:  # fmt: skip
        """Existing records of [start, stop) of each partition, in order within it.

        Ends when each position reaches ``stop``: the last offset may hold no record, because
        compaction and transaction markers leave gaps. With `most` so many are unpacked at once, at
        least a batch, and little is fetched.
        """
        reader = self._reader(isolation, few=most is not None)
        stops = {TopicPartition(topic, p): stop for p, (_, stop) in spans.items()}
        if not stops:
            return
        with errors_as(RebuildError):
            _assign(reader, list(stops))
            for tp, (begin, end) in _spans(reader, list(stops)).items():
                reader.seek(tp, max(spans[tp.partition][0], begin))
                stops[tp] = min(stops[tp], end)
            deadline = time.monotonic() + STILL_SECONDS
            while True:
                done = [tp for tp in stops if reader.position(tp, timeout_ms=5_000) >= stops[tp]]
                for tp in done:
                    reader.pause(tp)
                    del stops[tp]
                if not stops:
                    return
                for tp, records in reader.poll(timeout_ms=500, max_records=most).items():
                    for record in records:
                        if tp in stops and record.offset < stops[tp]:
                            deadline = time.monotonic() + STILL_SECONDS
                            yield record
                if time.monotonic() > deadline:
                    where = ", ".join(f"{topic}-{tp.partition} before {stops[tp]}" for tp in stops)
                    raise RebuildError(f"no record of {where} for {STILL_SECONDS} s")


def _assign(reader: Any, tps: list[TopicPartition]) -> None:
    """Have a consumer read these partitions, also those that it paused before."""
    reader.assign(tps)
    reader.resume(*tps)


def _spans(reader: Any, tps: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """First available and next offset of existing partitions."""
    begins, ends = _offsets(reader.beginning_offsets, tps), _offsets(reader.end_offsets, tps)
    return {tp: (begins[tp], ends[tp]) for tp in tps}


def _offsets(
    ask: Callable[..., dict[TopicPartition, int]], tps: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Ask for the first, or the next, offsets of partitions, with one request per broker."""
    offsets = ask(tps, timeout_ms=10_000)
    # Trap: of several, those whose leader is not known yet are left out; alone one is waited for.
    return {tp: offsets[tp] if tp in offsets else ask([tp], timeout_ms=10_000)[tp] for tp in tps}
