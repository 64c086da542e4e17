"""Append many records to kafka-python's producer at once: one lock, one lookup, one future a batch.

``KafkaProducer.send`` takes them singly, each with locks, a future and a call for every number in
it, which is most of a record's cost. `append` writes the same bytes into the same batches. It uses
private parts of kafka-python; `check` raises where they have changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.future import FutureRecordMetadata
from kafka.producer.producer_batch import ProducerBatch
from kafka.record.memory_records import MemoryRecordsBuilder

from stream_can.kafka.client.guards import unsupported
from stream_can.kafka.client.packing import pack
from stream_can.messages.records import Output

PARTS: dict[str, tuple[str, ...]] = {
    "": ("_accumulator", "_sender", "_transaction_manager"),
    "_sender": ("wakeup",),
    "_accumulator": ("_appends_in_progress", "_tp_lock", "_batches", "_incomplete", "_closed"),
}
SAMPLE = [
    Output(b"key", b"v" * 9000, [("name", b"value"), ("", b"")], 1000),
    Output(None, b"", [("null", None)], 500),
    Output(b"", None, [("\u00fc", b"v" * 200)], 1 << 40),
]
"""Encoded by both implementations and compared before any real record."""


class BatchFuture(FutureRecordMetadata):  # type: ignore[misc]
    """Future of records in one batch: where it is refused as too large and split, of all parts.

    A batch tells each of its records which part it is now in, so this stands once for each.
    """

    __slots__ = ("_is_split", "_waiting")

    def __init__(self, produce_future: Any, records: int, last: int) -> None:
        self._waiting, self._is_split = records, False
        super().__init__(produce_future, last, None, None, -1, -1, -1)

    def rebind(self, new_produce_future: Any, new_batch_index: int) -> None:
        self._is_split = True
        super().rebind(new_produce_future, new_batch_index)

    def _produce_success(self, result: Any) -> None:
        self._waiting -= 1
        is_refused = result[2] is not None
        if is_refused or not self._is_split or not self._waiting:
            super()._produce_success(result)


def wait(future: Any, seconds: float) -> None:
    """Wait until a future is done, at most so long.

    Trap: ``get`` runs in a loop without a pause while a part of a split batch is on its way.
    """
    is_done = threading.Event()
    future.add_both(lambda _: is_done.set())
    is_done.wait(seconds)


def check(producer: Any) -> None:
    """Raise UnsupportedVersionError where `append` does not support this producer."""
    try:
        for path, names in PARTS.items():
            for name in names:
                getattr(getattr(producer, path) if path else producer, name)
        theirs, ours = (MemoryRecordsBuilder(2, 0, 1 << 20) for _ in range(2))
        for out in SAMPLE:
            theirs.append(out.timestamp, out.key, out.value, out.headers)
        _ = ProducerBatch(TopicPartition("", 0), theirs)._record_futures
        fits, _ = _write(ours, SAMPLE, 0, 1 << 20)
        theirs.close()
        ours.close()
        if fits < len(SAMPLE) or theirs.buffer() != ours.buffer():
            raise AttributeError("record batches are written otherwise")
    except (AttributeError, TypeError) as error:
        raise unsupported("producer", error) from error


def require(producer: Any, topic: str, partition: int) -> None:
    """Raise UnknownTopicOrPartitionError for a partition that a producer does not know.

    Trap: ``send`` raises ValueError, though its metadata may just be stale.
    """
    if partition not in producer.partitions_for(topic):
        raise kafka_errors.UnknownTopicOrPartitionError(f"{topic}-{partition}")


def append(
    producer: Any, topic: str, partition: int, outputs: Sequence[Output], limit: int
) -> list[Any]:
    """Append records to the producer's batches, as its ``send`` would one by one.

    Parameters
    ----------
    limit
        Maximum size of a batch of several records: the topic's limit.

    Returns
    -------
    One future per batch that was appended to: a batch is acknowledged as a whole.
    """
    require(producer, topic, partition)
    tp = TopicPartition(topic, partition)
    transaction, accumulator = producer._transaction_manager, producer._accumulator
    if transaction is not None and transaction.is_transactional():
        transaction.maybe_add_partition_to_transaction(tp)
    limit = min(limit, producer.config["batch_size"])
    compression = producer.config["compression_attrs"]
    futures = []
    accumulator._appends_in_progress.increment()
    try:
        with accumulator._tp_lock(tp):
            if accumulator._closed:
                raise kafka_errors.IllegalStateError("RecordAccumulator is closed")
            waiting = accumulator._batches[tp]
            batch = waiting[-1] if waiting and not waiting[-1].records._closed else None
            done = 0
            while done < len(outputs):
                is_queued = batch is not None
                batch = batch or ProducerBatch(tp, MemoryRecordsBuilder(2, compression, limit))
                fits, largest = _write(batch.records, outputs, done, limit)
                if fits > done:
                    batch.max_record_size = max(batch.max_record_size, largest)
                    batch.last_append = time.monotonic()
                    last = batch.records.next_offset() - 1
                    futures.append(BatchFuture(batch.produce_future, fits - done, last))
                    batch._record_futures += [futures[-1]] * (fits - done)
                    if not is_queued:
                        waiting.append(batch)
                        accumulator._incomplete.add(batch)
                done, batch = fits, None
    finally:
        accumulator._appends_in_progress.decrement()
    producer._sender.wakeup()
    return futures


def _write(records: Any, outputs: Sequence[Output], start: int, limit: int) -> tuple[int, int]:
    """Write outputs from ``start`` on while they fit.

    Returns
    -------
    Index of the first output not written, and the size of the largest written.
    """
    builder, offset = records._builder, records.next_offset()
    data, end, largest, first, last = pack(
        outputs, start, limit, offset, builder.size(),
        builder._first_timestamp, builder._max_timestamp,
    )  # fmt: skip
    if end > start:
        offset += end - start
        builder._buffer += data
        builder._first_timestamp, builder._max_timestamp = first, last
        builder._num_records, builder._last_offset = offset, offset - 1
        records._next_offset = offset
    return end, largest
