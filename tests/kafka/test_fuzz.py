"""An input topic full of rubbish: nothing stops the worker, nothing is lost, the order is kept."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.record.default_records import DefaultRecordBatchBuilder

from stream_can.kafka import UnreadableRecord
from stream_can.kafka.client import appending
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.messages.records import Output
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, label, prediction, run_once
from tests.kafka.topics import produce, read
from tests.programs import PATIENCE

NESTED = b"[" * 10_000 + b"]" * 10_000


def rubbish(rng: random.Random) -> bytes | None:
    good = prediction(rng, 0)[1]
    cut = rng.randrange(len(good))
    return rng.choice(
        [
            None,
            b"",
            rng.randbytes(rng.randrange(300)),
            good[:cut],
            good[:cut] + rng.randbytes(3) + good[cut:],
            b'{"probs": [NaN, 0.5, 0.25, 0.25]}',
            b'{"probs": [1e999, 0, 0, 0]}',
            b'{"probs": [1e308, 1e308, 0, 0]}',
            b'{"probs": [-0.1, 0.4, 0.4, 0.3]}',
            b'{"probs": [0.5, 0.5]}',
            b'{"probs": [0.2, 0.2, 0.2, 0.2, 0.2]}',
            b'{"probs": {"a": 1, "b": 0, "c": 0}}',
            b'{"probs": {"a": 1, "b": 0, "c": 0, "z": 0}}',
            b'{"probs": "0.5"}',
            b'{"probs": null}',
            b'{"probs": ' + NESTED + b"}",
            NESTED,
            b'{"probs": [0.25, 0.25, 0.25, 0.25], "deep": ' + NESTED + b"}",
            b'{"probs": [0.25, 0.25, 0.25, 0.25], "long": "' + b"x" * 900_000 + b'"}',
            b"x" * 900_000,
            b'{"probs": [0.7, 0.1, 0.1, 0.1], "probs": [0.25, 0.25, 0.25, 0.25]}',
            b"\xef\xbb\xbf" + good,
            good.decode().encode("utf-16"),
        ]
    )


def headers(rng: random.Random) -> list[tuple[str, bytes]]:
    return rng.choice(
        [[], [("h", b"1")], [("h", b"1"), ("h", b"2")], [("", b"")], [("ü", b"\xff")]]
    )


# The corrector's message for a row whose sum overflows warns on its way.
def test_fuzzed_topics(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=2)
    rng = random.Random(7)
    records, good = [], 0
    for i in range(1500):
        key, value, truth = prediction(rng, i)
        partition, stamp = i % 2, 1_700_000_000_000 + i
        if rng.random() < 0.25:
            value = rubbish(rng)
            key = rng.choice([key, None, b"", rng.randbytes(9)]) if value is not None else key
        else:
            good += 1
        records.append((app.given["input"], partition, key, value, headers(rng), stamp))
        text = label(truth) if rng.random() < 0.7 else rubbish(rng)
        key = key if text is not None else b"k"
        records.append((app.given["labels"], partition, key, text, headers(rng), stamp + 20))
    produce(app.servers, records)
    run_once(app)
    app.verify()
    originals = {}
    for kind in ("input", "labels"):
        for p in range(2):
            for record in read(app.servers, app.given[kind], p):
                originals[app.given[kind], p, record.offset] = record
    dead = [record for p in range(2) for record in read(app.servers, f"{app.id}-dead-letters", p)]
    outs = [record for p in range(2) for record in app.outputs(p)]
    assert len(outs) + len([d for d in dead if source(d)[0] == app.given["input"]]) == 1500
    assert len(outs) >= good
    for letter in dead:
        original = originals[source(letter)]
        assert (letter.key, letter.value, letter.timestamp) == (
            original.key, original.value, original.timestamp,
        )  # fmt: skip
        assert letter.headers[: len(original.headers)] == original.headers
        about = dict(letter.headers)
        assert about["__connect.errors.exception.class.name"].startswith(b"stream_can.")
        assert about["__connect.errors.exception.message"]
    for p in range(2):  # the order is kept
        ids = [json.loads(r.value)["id"] for r in app.outputs(p) if b'"id"' in (r.value or b"")]
        assert [i for i in ids if i] == sorted(i for i in ids if i)


def source(letter: object) -> tuple[str, int, int]:
    about = dict(letter.headers)  # type: ignore[attr-defined]
    name = "__connect.errors."
    return (
        about[f"{name}topic"].decode(), int(about[f"{name}partition"]), int(about[f"{name}offset"]),
    )  # fmt: skip


def test_nulls_that_kafka_python_cannot_produce(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A null header value goes on as it is; null key with null value becomes a dead letter."""
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    _, value, _ = prediction(random.Random(0), 0)
    append = DefaultRecordBatchBuilder.append

    def with_nulls(self: Any, offset: int, stamp: int, *record: Any) -> Any:
        key, value, headers = record
        nulls = [(name, None if text == b"null" else text) for name, text in headers]
        return append(self, offset, stamp, key or None, value or None, nulls)

    monkeypatch.setattr(DefaultRecordBatchBuilder, "append", with_nulls)
    topic, headers = app.given["input"], [("h", b"1"), ("null", b"null")]
    produce(app.servers, [(topic, 0, b"k", value, headers), (topic, 0, b"", b"")])
    monkeypatch.undo()
    stored = read(app.servers, app.given["input"], 0)
    assert stored[0].headers == [("h", b"1"), ("null", None)]
    assert stored[1].key is stored[1].value is None
    run_once(app)
    assert app.outputs(0)[0].headers[:2] == [("h", b"1"), ("null", None)]
    (letter,) = read(app.servers, f"{app.id}-dead-letters", 0)
    assert (
        b"key and value are both null" in dict(letter.headers)["__connect.errors.exception.message"]
    )


def test_header_names_that_are_not_utf8(broker: Broker) -> None:
    """Any client but a Java one can write them; kafka-python's own reader would stop there."""
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    _, value, _ = prediction(random.Random(0), 0)
    name = b"\xff\xfe".decode(errors="surrogateescape")
    producer = KafkaProducer(bootstrap_servers=app.servers)
    outputs = [Output(b"k", text, [(name, b"1")], 5) for text in (value, b"not json")]
    producer.partitions_for(app.given["input"])
    appending.append(producer, app.given["input"], 0, outputs, 1 << 20)
    producer.flush(PATIENCE)
    producer.close()
    produce(app.servers, [(app.given["input"], 0, b"k", value)])
    run_once(app)
    readers = Readers(Options([app.servers]))
    outs = list(readers.read_span(app.given["output"], 0, 0, 100))
    (letter,) = readers.read_span(f"{app.id}-dead-letters", 0, 0, 100)
    readers.close()
    assert [out.headers[0] for out in outs][:1] == [letter.headers[0]] == [(name, b"1")]
    assert len(outs) == 2


def test_errors_fail_stops_there_with_what_came_before_committed(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False, errors="fail")
    rng = random.Random(1)
    records = [(app.given["input"], 0, *prediction(rng, i)[:2]) for i in range(10)]
    records.insert(7, (app.given["input"], 0, b"k", b"not json"))
    produce(app.servers, records)
    for _ in range(2):  # and again after a restart
        running = app.worker()
        with pytest.raises(UnreadableRecord, match=f"offset 7 of {app.given['input']}-0"):
            running.join()
        assert len(app.outputs(0)) == 7


def test_a_dead_letter_too_large_stops_the_worker_by_name(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    value = b"x" * 1_048_000
    produce(app.servers, [(app.given["input"], 0, b"k", value)], max_request_size=1_048_588)
    running = app.worker()
    with pytest.raises(DeniedError, match=rf"does not fit .*offset 0 of {app.given['input']}-0"):
        running.join()


def test_an_output_too_large_becomes_a_dead_letter(broker: Broker) -> None:
    """Its input fits the topic; with the original kept beside the correction it would not."""
    small = {"out": {"max.message.bytes": "100000"}}
    app = App(broker.bootstrap_servers, partitions=1, labels=False, configs=small)
    rng = random.Random(0)
    value = b'{"probs": [0.25, 0.25, 0.25, 0.25], "x": "' + b"x" * 99_000 + b'"}'
    records = [prediction(rng, i)[:2] for i in range(2000)]  # together far above the limit
    records.insert(1000, (b"k", value))
    produce(app.servers, [(app.given["input"], 0, *record) for record in records])
    run_once(app)
    assert app.verify() == 2001
    assert [r.value for r in read(app.servers, f"{app.id}-dead-letters", 0)] == [value]
