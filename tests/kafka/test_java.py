"""Java's own producer -> a worker -> Java's own consumer: nothing lost, twice or changed."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import time
from typing import Any

import pytest

from stream_can.messages.records import Record
from tests.kafka import formats
from tests.kafka.broker.broker import HERE, Broker, Served, jars, libraries
from tests.kafka.streams import App, label, prediction, run_once
from tests.kafka.topics import read
from tests.programs import PATIENCE, wait

KINDS = ["none", "gzip", "snappy", "lz4", "zstd"]
ODD = [("", b""), ("ü ", None), ("h", None), ("h", b"2"), ("\u0000", b"\xff\xfe")]


def peer(broker: Broker, *arguments: str, lines: list[str] | None = None) -> str:
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{libraries(broker.version)}/*", str(HERE / "Peer.java"), *arguments]
    done = subprocess.run(
        command, input="\n".join(lines or []), text=True, capture_output=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def read_by_avro(broker: Broker, topic: str, registry: str, schema: dict[str, Any]) -> list[Any]:
    """The records of a topic by Apache Avro: each as it was written, and as a schema has it."""
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
    command += [f"{jars('avro-1.11.4', 'pom-avro.xml')}/*:{libraries(broker.version)}/*"]
    command += [str(HERE / "AvroPeer.java"), broker.bootstrap_servers, topic, registry]
    done = subprocess.run(
        [*command, json.dumps(schema)], text=True, capture_output=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def encode(value: bytes | None) -> str:
    return "-" if value is None else "=" if not value else base64.b64encode(value).decode()


def decode(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode("" if text == "=" else text)


def consumed(broker: Broker, topics: list[str]) -> list[list[Record]]:
    """The records of each topic."""
    found: dict[str, list[Record]] = {topic: [] for topic in topics}
    for line in peer(broker, "consume", broker.bootstrap_servers, *topics).splitlines():
        topic, partition, offset, stamp, key, value, *rest = line.split(" ")
        names = [(decode(name) or b"").decode() for name in rest[::2]]
        headers = list(zip(names, map(decode, rest[1::2]), strict=True))
        place = (topic, int(partition), int(offset), int(stamp))
        found[topic].append(Record(*place, decode(key), decode(value), headers))
    return list(found.values())


class Script:
    """What the producer is told, with a label behind each prediction."""

    def __init__(self, app: App) -> None:
        self.app, self.rng = app, random.Random(0)
        self.lines: list[str] = []
        self.now = int(time.time() * 1000) - 60_000
        self.n = 0

    def send(self, topic: str, *record: Any, headers: Any = ()) -> None:
        self.now += 1
        fields = [encode(x) for x in record]
        for name, value in headers:
            fields += [encode(name.encode()), encode(value)]
        partition = self.n % self.app.partitions
        self.lines.append(f"send {topic} {partition} {self.now} {' '.join(fields)}")

    def predictions(self, n: int, *, pad: int = 0) -> None:
        for _ in range(n):
            key, value, truth = prediction(self.rng, self.n)
            if pad:
                value = value[:-1] + b', "pad": "' + b"x" * pad + b'"}'
            self.send(self.app.given["input"], key, value, headers=self.rng.sample(ODD, 3))
            self.send(self.app.given["labels"], key, label(truth), headers=ODD)
            self.n += 1


def told(record: Any) -> tuple[Any, ...]:
    return record.key, record.value, list(record.headers), record.timestamp


def test_java_to_java(our_broker: Broker) -> None:
    """Each codec; idempotent, not, and transactional with aborts; near the limit; odd headers."""
    app = App(
        our_broker.bootstrap_servers,
        compression="lz4",
        configs={"out": {"max.message.bytes": "3000000"},
                 "labels": {"message.timestamp.type": "LogAppendTime"}},
    )  # fmt: skip
    script = Script(app)
    for codec in KINDS:
        script.lines.append(f"config compression.type={codec} linger.ms=5 max.request.size=3000000")
        script.predictions(40)
    script.lines.append("config max.request.size=3000000")
    script.predictions(2, pad=1_047_500)
    script.lines.append("config transactional.id=them linger.ms=5")
    for end in ("commit", "abort", "commit", "abort"):
        script.lines.append("begin")
        script.predictions(30)
        script.send(app.given["input"], b"gone", None, headers=ODD)
        script.send(app.given["input"], None, b"{", headers=ODD)
        script.lines.append(end)
    script.lines.append("config enable.idempotence=false acks=1")
    script.predictions(40)
    peer(our_broker, "produce", app.servers, lines=script.lines)

    run_once(app)
    names = [app.given["input"], app.given["labels"], app.given["output"], f"{app.id}-dead-letters"]
    stored = consumed(our_broker, names)
    assert [len(records) for records in stored] == [306, 302, 304, 2]
    assert app.verify() == 304 + 2
    for topic, records in zip(names, stored, strict=True):  # as verified
        for partition in range(app.partitions):
            seen = [told(record) for record in records if record.partition == partition]
            assert seen == [told(record) for record in read(app.servers, topic, partition)]
    assert any(value is None for out in stored[2] for _, value in out.headers)


def test_a_compacted_input_has_gaps(our_broker: Broker) -> None:
    """Offsets are gone, in the middle of batches too; so are the predictions of some labels."""
    compacted = {"cleanup.policy": "compact", "segment.ms": "60000",
                 "min.cleanable.dirty.ratio": "0.001"}  # fmt: skip
    app = App(our_broker.bootstrap_servers, configs={"in": compacted})
    script, topic = Script(app), app.given["input"]
    config = "config compression.type=zstd linger.ms=5"
    script.lines.append(config)
    script.predictions(600)
    for n in script.rng.sample(range(600), 400):  # the same key again, or a tombstone
        script.n = n
        key, value, _ = prediction(script.rng, n)
        script.send(topic, key, value if n % 3 else None, headers=ODD)
    script.lines.append(config)  # what was sent is stored
    script.n, script.now = 600, script.now + 61_000  # a new segment: the newest is not cleaned
    script.predictions(200)
    peer(our_broker, "produce", app.servers, lines=script.lines)

    def stored() -> int:
        return sum(len(read(app.servers, topic, p)) for p in range(app.partitions))

    wait("the cleaner", lambda: stored() == 800)
    run_once(app)
    assert app.verify() == stored() == 800
    assert sum(app.checked.labels.values()) >= 800
    for partition in range(app.partitions):
        seen = [told(record) for record in app.outputs(partition) if record.value is None]
        kept = [told(record) for record in read(app.servers, topic, partition)]
        assert [key for key, *_ in seen] == [key for key, value, *_ in kept if value is None]


@pytest.mark.release
def test_avro_is_read_by_java(our_broker: Broker, registry: Served) -> None:
    """By who knows the schema of the answers, and by who knows that of the input alone."""
    app = App(
        our_broker.bootstrap_servers, format="avro", schema_registry=registry.url, **formats.AT
    )
    writers = [
        formats.serializer("avro", registry.url, app.given[topic], schema)
        for topic, schema in (("input", formats.FRAUD), ("labels", formats.LABEL))
    ]
    made = formats.fill(app, 200, *writers)
    formats.close()
    run_once(app)
    topic = app.given["output"]
    found = read_by_avro(our_broker, topic, registry.url, formats.FRAUD)
    assert len(found) == 2 * len(made)
    for whole, known in zip(found[::2], found[1::2], strict=True):
        given = made[whole["id"]]
        assert whole.pop("probs_raw") == given["model"]["probs"]
        assert whole == known
        assert abs(sum(whole["model"].pop("probs")) - 1) < 1e-9
        given["model"].pop("probs")
        assert whole == given
