"""Records appended and unpacked in bulk, against kafka-python's own one by one."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, UnsupportedVersionError
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.protocol.consumer import IsolationLevel
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from stream_can.kafka.client import appending, unpacking
from stream_can.kafka.client.guards import DamagedBatch
from stream_can.messages.records import Output

pytestmark = pytest.mark.fast

TP = TopicPartition("t", 0)
CODECS = [0, 1, 2, 3, 4]
"""None, gzip, snappy, lz4, zstd: as a batch numbers them."""
AROUND = st.sampled_from([0, 1, 63, 64, 65, 127, 128, 8191, 8192, 8193, 20_000])
SOME_BYTES = st.binary(max_size=80) | AROUND.map(bytes)
OUTPUTS = st.lists(
    st.builds(
        Output,
        st.none() | SOME_BYTES,
        st.none() | SOME_BYTES,
        st.lists(st.tuples(st.text(max_size=5), SOME_BYTES), max_size=3),
        st.integers(0, 2**62) | st.integers(1_700_000_000_000, 1_700_000_100_000),
    ),
    max_size=30,
)


def producer(batch_size: int, compression: int = 0) -> Any:
    """As much of a producer as an append touches: a real accumulator, no network."""
    accumulator = RecordAccumulator(
        batch_size=batch_size, message_version=2, compression_attrs=compression
    )
    return SimpleNamespace(
        _accumulator=accumulator,
        _transaction_manager=None,
        _sender=SimpleNamespace(wakeup=lambda: None),
        config={"batch_size": batch_size, "compression_attrs": compression},
        partitions_for=lambda topic: {0},
    )


def batches(producer: Any) -> list[Any]:
    return list(producer._accumulator._batches[TP])


def contents(producer: Any) -> list[bytes]:
    for batch in batches(producer):
        batch.records.close()
    return [bytes(batch.records.buffer()) for batch in batches(producer)]


@given(
    OUTPUTS,
    st.integers(0, 30),
    st.sampled_from([100, 1000, 20_000, 1 << 20]),
    st.sampled_from([0, 2, 3, 4]),  # gzip writes the time
)
def test_appended_batches_are_those_of_send(
    outputs: list[Output], cut: int, size: int, codec: int
) -> None:
    theirs, ours = producer(size, codec), producer(size, codec)
    for out in outputs:
        theirs._accumulator.append(TP, out.timestamp, out.key, out.value, out.headers)
    futures = appending.append(ours, "t", 0, outputs[:cut], 1 << 30)
    futures += appending.append(ours, "t", 0, outputs[cut:], 1 << 30)
    assert [b.record_count for b in batches(ours)] == [b.record_count for b in batches(theirs)]
    assert [b.max_record_size for b in batches(ours)] == [
        b.max_record_size for b in batches(theirs)
    ]
    assert contents(ours) == contents(theirs)
    assert set(ours._accumulator._incomplete.all()) == set(batches(ours))
    assert {id(f._produce_future) for f in futures} == {id(b.produce_future) for b in batches(ours)}


def test_send_and_append_share_a_batch() -> None:
    ours = producer(1 << 20)
    out = Output(b"k", b"v", [], 5)
    ours._accumulator.append(TP, 5, b"k", b"v", [])
    (future,) = appending.append(ours, "t", 0, [out, out], 1 << 20)
    ours._accumulator.append(TP, 5, b"k", b"v", [])
    (batch,) = batches(ours)
    assert batch.record_count == 4
    batch.complete(100, -1)
    assert future.succeeded()
    assert future.value.offset == 102  # of the last record that was appended with it


def test_no_batch_is_larger_than_its_topic_takes() -> None:
    ours = producer(1 << 20)
    appending.append(ours, "t", 0, [Output(None, bytes(300), [], 0)] * 10, 1000)
    assert [b.record_count for b in batches(ours)] == [3, 3, 3, 1]
    assert max(map(len, contents(ours))) <= 1000


@pytest.mark.parametrize("how", ["refused", "aborted", "unknown"])
def test_a_batch_that_fails_fails_its_future(how: str) -> None:
    ours = producer(1 << 20)
    (future,) = appending.append(ours, "t", 0, [Output(b"k", b"v", [], 0)] * 3, 1 << 20)
    (batch,) = batches(ours)
    error = ValueError("no")
    if how == "refused":
        batch.complete_exceptionally(error, lambda _: error)
    elif how == "aborted":
        batch.abort(error)
    assert not future.succeeded()
    assert future.exception is (None if how == "unknown" else error)


def test_a_batch_that_is_being_sent_is_left_alone() -> None:
    ours = producer(1 << 20)
    out = Output(b"k", b"v", [], 0)
    appending.append(ours, "t", 0, [out], 1 << 20)
    batches(ours)[0].records.close()
    appending.append(ours, "t", 0, [out], 1 << 20)
    assert [b.record_count for b in batches(ours)] == [1, 1]


def stored(batches_: list[tuple[list[Output], dict[str, Any], int]]) -> bytes:
    """Batches as a broker sends them: each with its records, its producer, its first offset."""
    found = b""
    for outputs, about, base in batches_:
        builder = MemoryRecordsBuilder(2, about.pop("compression", 0), 1 << 20, **about)
        for out in outputs:
            builder.append(out.timestamp, out.key, out.value, out.headers)
        builder.close()
        data = bytearray(builder.buffer())
        struct.pack_into(">q", data, 0, base)
        found += bytes(data)
    return found


def both(data: bytes, start: int = 0, **options: Any) -> list[tuple[Any, ...]]:
    """What kafka-python and we make of a fetch; equal, whatever is taken at a time."""
    found = []
    for kind, most in ((Fetcher.PartitionRecords, 1000), (unpacking.Unpacked, 1000),
                       (unpacking.Unpacked, 3)):  # fmt: skip
        part = kind(start, TP, MemoryRecords(data), **options)
        records, steps = [], []
        while part:
            records += part.take(most)
            steps.append(part.next_fetch_offset)
        plain = [
            (r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers))
            for r in records
        ]
        found.append((plain, part.next_fetch_offset, part.leader_epoch))
        if most == 3:
            assert steps == sorted(steps)
    assert found[0] == found[1] == found[2]
    return list(found[0][0])


@given(st.lists(OUTPUTS, max_size=3), st.sampled_from(CODECS), st.integers(0, 40))
def test_unpacked_records_are_those_of_kafka_python(
    groups: list[list[Output]], compression: int, start: int
) -> None:
    base, parts = 0, []
    for group in groups:
        parts.append((group, {"compression": compression}, base))
        base += len(group) + 2
    both(stored(parts), start)


def test_aborted_transactions_and_their_marks_are_hidden() -> None:
    out = [Output(b"k", b"v", [], 0)] * 3

    def of(producer: int) -> dict[str, Any]:
        return {"transactional": True, "producer_id": producer, "producer_epoch": 0,
                "base_sequence": 0}  # fmt: skip

    def mark(producer: int, commits: bool) -> bytes:
        data = bytearray(
            stored([([Output(b"\0\0\0" + bytes([commits]), bytes(6), [], 0)], of(producer), 0)])
        )
        (attributes,) = struct.unpack_from(">h", data, 21)
        struct.pack_into(">h", data, 21, attributes | 0x20)
        return bytes(data)

    def at(data: bytes, base: int) -> bytes:
        return struct.pack(">q", base) + data[8:]

    data = stored([(out, of(1), 0), (out, of(2), 3), (out, {}, 6)])
    data += at(mark(1, False), 9) + at(mark(2, True), 10) + stored([(out, of(1), 11)])
    data += at(mark(1, True), 14)
    aborted = [SimpleNamespace(producer_id=1, first_offset=0)]
    options = {"aborted_transactions": aborted, "check_crcs": False}
    seen = both(data, isolation_level=IsolationLevel.READ_COMMITTED, **options)
    assert [record[2] for record in seen] == [3, 4, 5, 6, 7, 8, 11, 12, 13]
    assert len(both(data, isolation_level=IsolationLevel.READ_UNCOMMITTED, **options)) == 12


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keep", [0, 5, 40])
def test_a_batch_with_a_good_crc_and_bad_contents_is_damaged_all_the_same(
    codec: int, keep: int
) -> None:
    outputs = [Output(b"key", b"value %d" % i, [("h", b"v")], 1000 + i) for i in range(20)]
    data = bytearray(stored([(outputs, {"compression": codec}, 7)]))
    data[61 + keep :] = b"\xff" * (len(data) - 61 - keep)
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    with pytest.raises(DamagedBatch, match="t-0, batch at 7"):
        unpacking.Unpacked(0, TP, MemoryRecords(bytes(data))).take(30)
    (letter,) = unpacking.Skipping(0, TP, MemoryRecords(bytes(data))).take(30)
    assert (letter.offset, letter.key, letter.value) == (26, None, b"")
    assert dict(letter.headers)["stream-can-damaged"].endswith(b"it ends at 26")


@given(st.integers(0, 10_000), st.integers(1, 255))
@example(place=1572, change=128)  # a name that is not UTF-8, which kafka-python calls corrupt
@example(place=752, change=128)  # attributes, unused: a byte, to kafka-python a varint
def test_a_damaged_batch_is_refused(place: int, change: int) -> None:
    outputs = [Output(b"key", bytes(60), [("h", b"v")], 1000 + i) for i in range(5)]
    data = bytearray(stored([(outputs, {}, 0)]))
    place = 61 + place % (len(data) - 61)
    data[place] ^= change
    with pytest.raises(CorruptRecordError, match="t-0: the batch at 0 fails its crc"):
        unpacking.Unpacked(0, TP, MemoryRecords(bytes(data))).take(10)
    found = []
    for kind in (Fetcher.PartitionRecords, unpacking.Unpacked):  # and if it had not been noticed
        part = kind(0, TP, MemoryRecords(bytes(data)), check_crcs=False)
        try:
            found.append([(r.offset, r.key, r.value, list(r.headers)) for r in part.take(10)])
            part.take(1)
        except (CorruptRecordError, TypeError):  # TypeError: no more to take
            found[len(found) :] = [["refused"]]
        except UnicodeDecodeError:
            found.append(["a name that is not UTF-8"])
    name_only = [["a name that is not UTF-8"], ["refused"]]
    sent = [(i, b"key", bytes(60), [("h", b"v")]) for i in range(5)]
    if found[0] in name_only and found[1] not in (["refused"], sent):
        names = [name for *_, headers in found[1] for name, _ in headers]
        assert not all(name.isascii() for name in names)
        found[0] = found[1]
    assert found[0] == found[1] or found[1] in (["refused"], sent)


@given(st.binary(min_size=1, max_size=8))
def test_a_header_name_keeps_its_bytes_utf8_or_not(name: bytes) -> None:
    sent = stored([([Output(b"k", b"v", [("n" * len(name), b"x")], 0)], {}, 0)])
    data = sent.replace(b"n" * len(name), name)
    (record,) = unpacking.Unpacked(0, TP, MemoryRecords(data), check_crcs=False).take(10)
    ours = producer(1 << 20)
    appending.append(ours, "t", 0, [Output(b"k", b"v", record.headers, 0)], 1 << 20)
    (again,) = contents(ours)
    assert again[61:] == data[61:]  # behind the batch's head, which has the crc


def test_an_unknown_kafka_python_is_refused() -> None:
    ours = producer(1000)
    appending.check(ours)
    del ours._accumulator._incomplete
    with pytest.raises(UnsupportedVersionError, match="'_incomplete'; install kafka-python"):
        appending.check(ours)
    with pytest.raises(UnsupportedVersionError, match="'PartitionRecords'; install kafka-python"):
        unpacking.install(SimpleNamespace(_fetcher=SimpleNamespace()))
