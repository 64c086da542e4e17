"""What the output topic refuses for good: a dead letter before it is sent, else a named end."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import pytest

from stream_can.kafka import DeniedError, RebuildError, RetryError, correcting_role
from stream_can.kafka import retry as retry_module
from stream_can.kafka.client.topic_limits import TopicLimits
from stream_can.kafka.retry import MOST_RESTORES, RetryPolicy
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, Running, prediction, run_once
from tests.kafka.topics import produce, read

HOUR = 3_600_000
REASON = "__connect.errors.exception.message"


def refused(app: App) -> tuple[list[Any], list[Any]]:
    """Predictions, two of each kind that some topic refuses; a worker over them."""
    rng, now = random.Random(0), int(time.time() * 1000)
    topic, records = app.given["input"], []
    for i in range(20):
        key, value, _ = prediction(rng, i)
        records.append((topic, 0, key, value, [("h", b"1")], now))
    key, value, _ = records[3][2:5]
    for i in (5, 12):
        records.insert(i, (topic, 0, None, value, [("no key", b"")], now))
        records.insert(i, (topic, 0, key, value, [("ahead", b"")], now + 2 * HOUR))
        records.insert(i, (topic, 0, key, value, [("old", b"")], now - 2 * HOUR))
        records.insert(i, (topic, 0, b"k" * 1_048_300, None, [("large", b"")], now))
        records.insert(i, (topic, 0, key, None, [("fine", b"")], now))
        records.insert(i, (topic, 0, key, b"{", [("bad", b"")], now + 2 * HOUR))
    produce(app.servers, records, max_request_size=2 << 20)
    run_once(app, commit_every=7)
    return app.outputs(0), read(app.servers, f"{app.id}-dead-letters", 0)


def test_what_can_be_known_is_a_dead_letter(broker: Broker) -> None:
    """Whatever the other records; they are corrected as one Corrector over all would."""
    bounds = {"message.timestamp.after.max.ms": str(HOUR),
              "message.timestamp.before.max.ms": str(HOUR)}  # fmt: skip
    configs = {
        "in": {"message.timestamp.after.max.ms": str(100 * HOUR)},
        "out": {"cleanup.policy": "compact", **bounds},
        "dead-letters": {"max.message.bytes": "2000000", **bounds},
        "sent": {"max.message.bytes": "2000000"},  # as where it is created; some may be handed over
    }
    app = App(broker.bootstrap_servers, partitions=1, labels=False, configs=configs)
    outputs, letters = refused(app)
    assert len(outputs) == 22
    kinds = [next(iter(dict(letter.headers))) for letter in letters]
    assert sorted(kinds) == sorted(["no key", "ahead", "old", "large", "bad"] * 2)
    reasons = {
        kind: dict(of.headers)[REASON].decode() for kind, of in zip(kinds, letters, strict=True)
    }
    assert "not a JSON object" in reasons["bad"]
    assert "no key, and the topic is compacted" in reasons["no key"]
    assert "s ahead, and the topic has message.timestamp.after.max.ms=3600000" in reasons["ahead"]
    assert "s old, and the topic has message.timestamp.before.max.ms=3600000" in reasons["old"]
    assert "it takes 1049" in reasons["large"]
    stored = {record.offset: record for record in read(app.servers, app.given["input"], 0)}
    for letter, kind in zip(letters, kinds, strict=True):
        told = dict(letter.headers)
        record = stored[int(told["__connect.errors.offset"])]
        assert (letter.key, letter.value) == (record.key, record.value)
        own = int(told.get("stream-can-timestamp", letter.timestamp))
        assert own == record.timestamp
        assert ("stream-can-timestamp" in told) == (kind in ("ahead", "old", "bad"))
    messages = {record.key: record.value for record in stored.values()}
    for out in outputs:
        if out.value is not None:
            before = json.loads(messages[out.key])
            assert json.loads(out.value).items() >= {"probs_raw": before["probs"]}.items()


@pytest.mark.parametrize("last", [False, True])
def test_what_cannot_be_handed_over_is_a_dead_letter(broker: Broker, *, last: bool) -> None:
    """What it stands among is corrected, and waits no longer for it."""
    app = App(broker.bootstrap_servers, partitions=1, labels=False,
              configs={"sent": {"max.message.bytes": "200000"}})  # fmt: skip
    rng, topic, old = random.Random(0), app.given["input"], int(time.time() * 1000) - 60_000
    records = [(topic, 0, *prediction(rng, i)[:2], [], old) for i in range(80)]
    key, value, _ = prediction(rng, 80)
    large = json.dumps(json.loads(value) | {"text": "x" * 250_000}).encode()
    records.insert(80 if last else 7, (topic, 0, key, large, [], old))
    produce(app.servers, records)
    run_once(app)
    assert [out.key for out in app.outputs(0)] == [one[2] for one in records if one[3] != large]
    (letter,) = read(app.servers, f"{app.id}-dead-letters", 0)
    assert (letter.key, letter.value) == (key, large)
    reason = dict(letter.headers)[REASON].decode()
    assert f"'{app.id}-sent', where it would wait, takes 198976" in reason


def test_what_cannot_be_handed_over_ends_it_where_errors_fail(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False, errors="fail",
              configs={"sent": {"max.message.bytes": "200000"}})  # fmt: skip
    key, value, _ = prediction(random.Random(0), 0)
    large = json.dumps(json.loads(value) | {"text": "x" * 250_000}).encode()
    topic, old = app.given["input"], int(time.time() * 1000) - 60_000
    produce(app.servers, [(topic, 0, key, one, [], old) for one in (large, *[value] * 80)])
    with pytest.raises(DeniedError, match=rf"{topic}-0 offset 0: it takes 25.*raise that"):
        app.worker().join()


def test_errors_fail_stops_there(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False, errors="fail",
              configs={"out": {"cleanup.policy": "compact"}})  # fmt: skip
    key, value, _ = prediction(random.Random(0), 0)
    topic = app.given["input"]
    produce(app.servers, [(topic, 0, key, value), (topic, 0, None, value)])
    with pytest.raises(DeniedError, match=rf"{topic}-0 offset 1: the output topic refuses it: no"):
        app.worker().join()
    assert app.outputs(0) == []


@pytest.mark.parametrize("old", [False, True])
def test_what_is_refused_all_the_same_is_named(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, *, old: bool
) -> None:
    """As where the topics' settings may not be read, or change while the worker runs; of records
    that are handed over too."""
    monkeypatch.setattr(TopicLimits, "from_configs", classmethod(lambda cls, _: cls()))
    monkeypatch.setattr(correcting_role, "ANSWER_SECONDS", 2.0)
    now = int(time.time() * 1000) - (60_000 if old else 0)
    key, value, _ = prediction(random.Random(0), 0)
    for config, bad, reason in (
        ({"cleanup.policy": "compact"}, (None, value, [], now), "InvalidRecordError"),
        ({"message.timestamp.after.max.ms": str(HOUR)}, (key, value, [], now + 2 * HOUR),
         "InvalidTimestampError"),
        ({"max.message.bytes": "1000"}, (b"k" * 2000, None, [], now), "MessageSizeTooLargeError"),
    ):  # fmt: skip
        far = {"message.timestamp.after.max.ms": str(100 * HOUR)}
        app = App(broker.bootstrap_servers, partitions=1, labels=False,
                  configs={"in": far, "out": config})  # fmt: skip
        topic, good = app.given["input"], (key, value, [], now)
        produce(app.servers, [(topic, 0, *record) for record in (good, good, bad, good)])
        running: Running = app.worker()
        with pytest.raises(DeniedError, match=reason) as caught:
            running.join()
        assert f"{app.given['output']}-0" in str(caught.value)
        assert f"made of offsets 0 to 3 of {topic}-0" in str(caught.value)
        assert app.outputs(0) == []


def test_a_batch_that_only_the_broker_finds_too_large_goes_in_parts(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Split by the client, also several times, each record arrives once."""
    monkeypatch.setattr(TopicLimits, "from_configs", classmethod(lambda cls, _: cls()))
    limit = {"max.message.bytes": "1000"}
    app = App(broker.bootstrap_servers, partitions=1, labels=False, configs={"out": limit})
    rng = random.Random(0)
    records = [(app.given["input"], 0, *prediction(rng, i)[:2]) for i in range(60)]
    produce(app.servers, records)
    run_once(app)
    assert [out.key for out in app.outputs(0)] == [record[2] for record in records]


def test_dead_letters_must_not_replace_each_other(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, configs={"dead-letters": {"cleanup.policy": "compact"}})
    with pytest.raises(
        DeniedError, match=r"dead-letters' has cleanup.policy=compact; set it to delete"
    ):
        app.worker().join()


@pytest.mark.fast
def test_restores_without_a_commit_back_off_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    stopping = threading.Event()
    monkeypatch.setattr(stopping, "wait", pauses.append)
    patience = RetryPolicy(300, "0", stopping, lambda: None)
    error = RebuildError("the brokers say no")
    for committed in (0, 10):  # a commit begins a new row
        for _ in range(MOST_RESTORES):
            patience.before_restore(error, committed)
        assert pauses == sorted(pauses)
        assert len(pauses) == MOST_RESTORES - 1
        assert 0.1 < pauses[0] < 1 < pauses[-1]
        pauses.clear()
    with pytest.raises(RetryError, match=r"20 failures in a row.*: the brokers say no"):
        patience.before_restore(error, 10)
    monkeypatch.setattr(retry_module, "CALM_SECONDS", 0.0)  # as if it was long ago
    patience.before_restore(error, 10)
