"""Append many records to kafka-python's producer at once: one lock, one lookup, one future a batch.

``KafkaProducer.send`` takes them singly, each with locks, a future and a call for every number in
it, which is most of a record's cost. `append` writes the same bytes into the same batches. It uses
private parts of kafka-python; `check` raises where they have changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.future import FutureRecordMetadata
from kafka.producer.producer_batch import ProducerBatch
from kafka.record.memory_records import MemoryRecordsBuilder

from stream_can.messages.records import Header, Output

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


def varint(number: int) -> bytes:
    """Encode a signed integer as Kafka does: zigzag, seven bits per byte, lowest first."""
    left = (number << 1) ^ (number >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(0x80 | (left & 0x7F))
        left >>= 7
    found.append(left)
    return bytes(found)


SMALL = 8192
VARINTS = [varint(number) for number in range(SMALL)]
"""Encodings of the numbers that nearly all lengths, offsets and time differences are among."""
NULL = varint(-1)


def check(producer: Any) -> None:
    """Raise UnsupportedVersionError where `append` does not support this producer."""
    try:
        for path, names in PARTS.items():
            for name in names:
                getattr(getattr(producer, path) if path else producer, name)
        theirs, ours = (MemoryRecordsBuilder(2, 0, 1 << 20) for _ in range(2))
        for out in SAMPLE:
            theirs.append(out.timestamp, out.key, out.value, out.headers)
        fits, _ = _write(ours, SAMPLE, 0, 1 << 20)
        theirs.close()
        ours.close()
        if fits < len(SAMPLE) or theirs.buffer() != ours.buffer():
            raise AttributeError("record batches are written otherwise")
    except (AttributeError, TypeError) as error:
        raise kafka_errors.UnsupportedVersionError(
            f"this kafka-python's producer is not as 3.0.12's: {error}; install"
            " kafka-python>=3.0.12,<3.1"
        ) from error


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
        Maximum size of a batch of several records: the topic's limit. A batch that is refused as
        too large is split, and its future never completes.

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
                begun = batch is not None
                batch = batch or ProducerBatch(tp, MemoryRecordsBuilder(2, compression, limit))
                fits, largest = _write(batch.records, outputs, done, limit)
                if fits > done:
                    batch.max_record_size = max(batch.max_record_size, largest)
                    batch.last_append = time.monotonic()
                    last = batch.records.next_offset() - 1
                    futures.append(
                        FutureRecordMetadata(batch.produce_future, last, None, None, -1, -1, -1)
                    )
                    if not begun:
                        waiting.append(batch)
                        accumulator._incomplete.add(batch)
                done, batch = fits, None
    finally:
        accumulator._appends_in_progress.decrement()
    producer._sender.wakeup()
    return futures


def _write(records: Any, outputs: Sequence[Output], start: int, limit: int) -> tuple[int, int]:
    """Write outputs from ``start`` on while they fit.

    A record's bytes follow Kafka's record format 2: times and offsets as differences to the first
    of the batch, every number as a varint. Inlined, so that most numbers need no call.

    Returns
    -------
    Index of the first output not written, and the size of the largest written.
    """
    builder, table = records._builder, VARINTS
    offset, size = records.next_offset(), builder.size()
    first, last = builder._first_timestamp, builder._max_timestamp
    headers, packed = None, b""  # consecutive outputs often have equal headers
    parts: list[bytes] = []
    largest, end = 0, start
    for end in range(start, len(outputs)):
        out = outputs[end]
        key, value, stamp = out.key, out.value, out.timestamp
        if first is None:
            first = last = stamp
        if out.headers != headers:
            headers = out.headers
            packed = _pack(headers)
        delta = stamp - first
        n, m = (-1 if key is None else len(key)), (-1 if value is None else len(value))
        record = b"".join(
            (
                b"\0",  # attributes
                table[delta] if 0 <= delta < SMALL else varint(delta),
                table[offset] if offset < SMALL else varint(offset),
                table[n] if 0 <= n < SMALL else varint(n),
                key or b"",
                table[m] if 0 <= m < SMALL else varint(m),
                value or b"",
                packed,
            )
        )
        length = len(record)
        head = table[length] if length < SMALL else varint(length)
        length += len(head)
        if size + length > limit and offset > 0:  # an empty batch takes one record of any size
            break
        parts += (head, record)
        size += length
        offset += 1
        if stamp > last:
            last = stamp
        if length > largest:
            largest = length
    else:
        end = len(outputs)
    if end > start:
        builder._buffer += b"".join(parts)
        builder._first_timestamp, builder._max_timestamp = first, last
        builder._num_records, builder._last_offset = offset, offset - 1
        records._next_offset = offset
    return end, largest


def _pack(headers: Iterable[Header]) -> bytes:
    parts = [b""]
    for name, value in headers:
        text = name.encode(errors="surrogateescape")  # unpacking maps invalid UTF-8 so
        n = NULL if value is None else varint(len(value))
        parts += (varint(len(text)), text, n, value or b"")
    parts[0] = varint(len(parts) // 4)
    return b"".join(parts)
