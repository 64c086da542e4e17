"""A damaged batch stops the worker by name, or is one dead letter; it never stands still."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from stream_can.kafka import DeniedError
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import STAMP, App, caught_up, label, prediction
from tests.kafka.topics import produce, read

BATCHES = 5
SIZE = 20
DELTA, TEXT = 23, 100
"""Places in a batch: the last offset in it, and something in a record."""


def fill(app: App, seed: int) -> None:
    """A batch of predictions and one of their labels."""
    rng = random.Random(seed)
    for kind in ("input", "labels"):
        records = []
        for i in range(SIZE):
            key, value, truth = prediction(rng, seed * SIZE + i)
            stamp = STAMP + 1000 * seed + i
            text = value if kind == "input" else label(truth)
            records.append((app.given[kind], 0, key, text, [], stamp))
        produce(app.servers, records, linger_ms=1000)


def damage(broker: Broker, topic: str, number: int, place: int) -> None:
    """Change a byte of a stored batch, under the broker, which hands it out as it is."""
    (segment,) = (broker.directory / "data" / f"{topic}-0").glob("*.log")
    data, at = segment.read_bytes(), 0
    for _ in range(number):
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    assert struct.unpack_from(">q", data, at)[0] == number * SIZE
    write(segment, at + place, bytes([data[at + place] ^ 1]))


def write(path: Path, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def test_it_stops_by_name_and_skip_damaged_goes_on(our_broker: Broker) -> None:
    app = App(our_broker.bootstrap_servers, partitions=1)
    for seed in range(BATCHES - 1):
        fill(app, seed)
    topic, labels = app.given["input"], app.given["labels"]
    damage(our_broker, topic, 1, TEXT)
    with pytest.raises(DeniedError, match=f"{topic}-0: the batch at 20 fails.*--skip-damaged"):
        app.worker().join()

    damage(our_broker, labels, 2, TEXT)
    damage(our_broker, topic, 3, DELTA)  # nobody can say any more where it ends
    running = app.worker(skip_damaged=True)
    caught_up(app, running)
    fill(app, BATCHES - 1)
    caught_up(app, running)
    running.stop()
    ids = [int(out.key[1:]) for out in app.outputs(0)]
    assert ids == [*range(20), *range(40, 60), *range(80, 100)]
    letters = {}
    for letter in read(app.servers, f"{app.id}-dead-letters", 0):
        told = {name: value.decode() for name, value in letter.headers}
        place = (told["__connect.errors.topic"], int(told["__connect.errors.offset"]))
        letters[place] = told["stream-can-damaged"]
    assert letters.pop((topic, 39)) == f"{topic}-0: the batch at 20 fails its crc; it ends at 39"
    assert (labels, 59) in letters
    assert {offset for of, offset in letters if of == topic} == set(range(60, 80))
    assert len(letters) == 21

    running = app.worker(skip_damaged=True)  # its recent predictions are read again
    fill(app, BATCHES)
    caught_up(app, running)
    running.stop()
    assert len(app.outputs(0)) == 4 * SIZE
