"""Unpack a fetched batch's records at once, instead of kafka-python's one by one.

`Unpacked` replaces the class with which a consumer's fetcher unpacks, and applies the same rules
about visible batches. The result differs in two ways: records have the type `Record`, and header
names with invalid UTF-8, at which kafka-python fails, are readable. Private parts of kafka-python
are used; `install` raises where they have changed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from stream_can.kafka.client import packing
from stream_can.kafka.client.guards import DamagedBatch, unsupported
from stream_can.messages.records import Record

log = logging.getLogger(__name__)

DAMAGED_HEADER = "stream-can-damaged"
"""Header of a dead letter that stands for a damaged batch, with its offsets."""


def install(consumer: Any, *, skip_damaged: bool = False) -> None:
    """Make a consumer unpack with `Unpacked`, or with `Skipping`.

    Raises
    ------
    UnsupportedVersionError
        This version of kafka-python is not supported.
    """
    try:
        if consumer._fetcher.PartitionRecords is not Fetcher.PartitionRecords:
            raise AttributeError("fetches are unpacked elsewhere")
        sample = MemoryRecordsBuilder(2, 0, 1 << 20)
        sample.append(1000, b"key", b"v" * 9000, [("name", b"value"), ("", None)])
        sample.append(500, None, b"", [])
        sample.append(1 << 40, b"", None, [("\u00fc", b"v" * 200)])
        sample.close()
        data, kinds = bytes(sample.buffer()), (Fetcher.PartitionRecords, Unpacked)
        theirs, ours = (
            _plain(kind(0, TopicPartition("a", 1), MemoryRecords(data))) for kind in kinds
        )
        if theirs != ours:
            raise AttributeError("record batches are read otherwise")
    except (AttributeError, TypeError) as error:
        raise unsupported("consumer", error) from error
    consumer._fetcher.PartitionRecords = Skipping if skip_damaged else Unpacked


def unpark(consumer: Any) -> None:
    """Return parked records to resumed partitions; call before each poll.

    Trap: the fetcher parks the records of a paused partition until its slot is None. A slot whose
    records are all consumed is not None, so they would stay parked for ever; and a slot of a
    partition paused since is parked only when the poll looks for other records.
    """
    fetcher = consumer._fetcher
    part = fetcher._next_partition_records
    if part is None:
        return
    tp = part.topic_partition
    if part and fetcher._subscriptions.is_paused(tp):
        fetcher._paused_partition_records[tp] = part
    elif part:
        return
    fetcher._next_partition_records = None


def _plain(part: Any) -> list[tuple[Any, ...]]:
    return [
        (r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers))
        for r in part.take()
    ]


class Unpacked(Fetcher.PartitionRecords):  # type: ignore[misc]
    """Records of one fetch of one partition."""

    def _unpack_records(self, tp: Any, records: Any, *_: Any) -> Iterator[Record]:
        """Iterate over the visible records of all batches; called by kafka-python.

        ``next_fetch_offset`` follows each consumed record, and jumps over hidden batches.
        """
        last = None
        while (batch := records.next_batch()) is not None:
            if self.check_crcs and not batch.validate_crc():
                error = DamagedBatch(
                    f"{tp.topic}-{tp.partition}: the batch at {batch.base_offset} fails its crc"
                )
                last = None
                yield self._damaged(batch, error)
                continue
            last = batch
            if batch.magic == 2:
                self.leader_epoch = batch.leader_epoch
                if self._hidden(batch) or batch.is_control_batch:
                    self.next_fetch_offset = batch.next_offset
                    continue
            try:
                unpacked = unpack(batch, tp.topic, tp.partition)
            except DamagedBatch as error:
                last = None
                yield self._damaged(batch, error)
                continue
            self.records_read += len(unpacked)
            self.bytes_read += sum(len(r.value or b"") for r in unpacked)  # only for a metric
            for record in unpacked:
                self.next_fetch_offset = record.offset + 1
                yield record
        # Compaction may have removed the last records of a batch; its end stays.
        if last is not None and last.magic == 2:
            self.next_fetch_offset = last.next_offset
        self.drain()

    def _damaged(self, batch: Any, error: DamagedBatch) -> Record:
        """Raise. Trap: after an exception here the fetcher loops for ever; drop the consumer."""
        raise error

    def _hidden(self, batch: Any) -> bool:
        """Whether the batch belongs to an aborted transaction, or is a control batch."""
        if self.isolation_level != IsolationLevel.READ_COMMITTED or not batch.has_producer_id():
            return False
        self._consume_aborted_transactions_up_to(batch.last_offset)
        if self._contains_abort_marker(batch):
            self.aborted_producer_ids.discard(batch.producer_id)
            return True
        return bool(self._is_batch_aborted(batch))


class Skipping(Unpacked):
    """Like `Unpacked`, but a damaged batch is one unreadable record."""

    def _damaged(self, batch: Any, error: DamagedBatch) -> Record:
        last = max(batch.base_offset, self.fetch_offset)
        if batch.last_offset_delta == batch.records_count - 1:
            last = batch.last_offset
        # Otherwise its head is damaged too, or it was compacted. Then only one offset is skipped;
        # the rest of the batch is fetched again and skipped likewise.
        self.next_fetch_offset = last + 1
        now = int(time.time() * 1000)
        stamp = batch.max_timestamp if 0 < batch.max_timestamp < now else now
        log.warning("%s; going on at offset %d", error, last + 1)
        tp = self.topic_partition
        text = f"{error}; it ends at {last}".encode()
        return Record(tp.topic, tp.partition, last, stamp, None, b"", [(DAMAGED_HEADER, text)])


def unpack(batch: Any, topic: str, partition: int) -> list[Record]:
    """Unpack all records of one batch.

    Raises
    ------
    DamagedBatch
        It cannot be decompressed, or its lengths are inconsistent.
    """
    if not isinstance(batch, DefaultRecordBatch):  # written by a client older than Kafka 0.11
        return [
            Record(topic, partition, r.offset, r.timestamp, r.key, r.value, r.headers)
            for r in batch
        ]
    try:
        batch._maybe_uncompress()
    except kafka_errors.UnsupportedCodecError:
        raise
    except Exception as error:  # codecs raise various errors
        where = f"{topic}-{partition}, batch at {batch.base_offset}"
        raise DamagedBatch(f"{where} cannot be uncompressed: {error!r}") from error
    appended = batch.max_timestamp if batch.timestamp_type == batch.LOG_APPEND_TIME else None
    try:
        return packing.unpack(
            bytes(batch._buffer), batch._pos, batch.records_count, topic, partition,
            batch.base_offset, batch.first_timestamp, appended,
        )  # fmt: skip
    except ValueError as error:
        where = f"{topic}-{partition}, batch at {batch.base_offset}"
        raise DamagedBatch(f"{where}: {error}") from error
