"""What the format of the messages costs: `Task.handle` a prediction, Avro and Protobuf beside JSON.

    python benchmarks/formats.py [--rounds 5] [--worker]

The same rows in each format, with an id, a number and a time beside the probabilities, which are an
array or a map of names. Processor time of the calls alone, in batches of 500 predictions that are
kept for their labels; formats one after the other within each round, ratios to JSON in each round.
``--worker`` measures whole workers over a real broker and a real registry too: processor time of
the process a record, from the first record to the last commit.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
from pipe import spread

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

from stream_can import Corrector  # noqa: E402
from stream_can.stream.codecs.avro import AvroCodec  # noqa: E402
from stream_can.stream.codecs.protobuf import ProtobufCodec  # noqa: E402
from stream_can.stream.fields import Fields  # noqa: E402
from stream_can.stream.messages import Formats  # noqa: E402
from stream_can.stream.records import Record  # noqa: E402
from stream_can.stream.task import Task  # noqa: E402
from tests.codecs.schemas import InMemory  # noqa: E402

SIZES, BATCHES, BATCH = (10, 100, 1000), 8, 500
WORKER_SIZES = {10: 40_000, 100: 12_000}


def datum(i: int, row: list[float], names: list[str] | None) -> dict[str, Any]:
    probs = row if names is None else dict(zip(names, row, strict=True))
    return {"id": f"i{i}", "amount": 1.25, "probs": probs, "at": 1_700_000_000_000 + i}


def schema(shape: str) -> dict[str, Any]:
    one: dict[str, Any] = {"type": "array", "items": "double"}
    if shape == "map":
        one = {"type": "map", "values": "double"}
    names = ("id", "string"), ("amount", "double"), ("probs", one), ("at", "long")
    fields = [{"name": name, "type": type_} for name, type_ in names]
    return {"type": "record", "name": "Seen", "fields": fields}


def avro(shape: str) -> tuple[Formats, Callable[[Any], bytes]]:
    schemas, parsed = InMemory(), fastavro.parse_schema(schema(shape))
    head, codec = schemas.add(schema(shape)), AvroCodec(schemas)

    def write(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return head + out.getvalue()

    return Formats(codec, codec), write


def protobuf(shape: str) -> tuple[Formats, Callable[[Any], bytes]]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="seen.proto", syntax="proto3")
    message = file.message_type.add(name="Seen")
    for number, (name, kind) in enumerate(
        [("id", field.TYPE_STRING), ("amount", field.TYPE_DOUBLE), ("probs", field.TYPE_DOUBLE),
         ("at", field.TYPE_INT64)], 1,
    ):  # fmt: skip
        label = field.LABEL_REPEATED if name == "probs" else field.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, label=label)
    if shape == "map":
        entry = message.nested_type.add(name="ProbsEntry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate(
            [("key", field.TYPE_STRING), ("value", field.TYPE_DOUBLE)], 1
        ):
            entry.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
        message.field[2].type, message.field[2].type_name = field.TYPE_MESSAGE, ".Seen.ProbsEntry"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    Seen = message_factory.GetMessageClass(pool.FindMessageTypeByName("Seen"))
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    codec: Any = ProtobufCodec(None, files, "Seen")
    return Formats(codec, codec), lambda value: Seen(**value).SerializeToString()


def plain(shape: str) -> tuple[Formats, Callable[[Any], bytes]]:
    return Formats(), lambda value: json.dumps(value).encode()


FORMATS = {"JSON": plain, "Avro": avro, "Protobuf": protobuf}


def handled(m: int, shape: str) -> dict[str, float]:
    """Microseconds a prediction, by format."""
    rng = np.random.default_rng(m)
    rows = rng.dirichlet(np.full(m, 0.3), BATCHES * BATCH).tolist()
    names = [f"class {i}" for i in range(m)]
    found = {}
    for name, make in FORMATS.items():
        formats, write = make(shape)
        values = [write(datum(i, row, names if shape == "map" else None))
                  for i, row in enumerate(rows)]  # fmt: skip
        options: Any = {"fields": Fields(id="id"), "labels_topic": "labels"}
        task, seconds = Task(Corrector(names), formats=formats, **options), 0.0
        for batch in range(BATCHES):
            records = [Record("in", 0, i, i, None, values[i])
                       for i in range(batch * BATCH, (batch + 1) * BATCH)]  # fmt: skip
            begin = time.process_time()
            result = task.handle(records)
            seconds += time.process_time() - begin if batch else 0.0
            assert len(result.outputs) == BATCH
        found[name] = 1e6 * seconds / ((BATCHES - 1) * BATCH)
    return found


def table(found: dict[tuple[int, str], list[dict[str, float]]], what: str) -> None:
    print(f"\n| m | probabilities | format | {what}: min / median / max | times JSON |")
    print("|--:|---|---|--:|--:|")
    for (m, shape), rounds in found.items():
        for name in rounds[0]:
            ratios = [one[name] / one["JSON"] for one in rounds]
            times = spread([one[name] for one in rounds], ".1f")
            print(f"| {m} | {shape} | {name} | {times} | {spread(ratios, '.2f')} |")


def cpu(pid: int) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def worker_cpu(m: int, n: int, form: str, servers: str, url: str) -> float:
    """Microseconds of processor time a record of a worker."""
    from tests.kafka.formats import client, close
    from tests.kafka.streams import STEADY, App

    _, write = plain("array")
    settings: dict[str, Any] = {}
    if form == "Avro":
        settings = {"format": "avro", "schema_registry": url}
    names = [f"class {i}" for i in range(m)]
    app = App(servers, partitions=4, labels=False, classes=names, client=STEADY, **settings)
    if form == "Avro":
        from confluent_kafka.schema_registry import Schema

        text = json.dumps(schema("array"))
        number = client(url).register_schema(f"{app.given['input']}-value", Schema(text, "AVRO"))
        close()
        _, body = avro("array")
        write = lambda value: b"\0" + number.to_bytes(4, "big") + body(value)[5:]  # noqa: E731
    rng = np.random.default_rng(m)
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=20, batch_size=262_144)
    for i, row in enumerate(rng.dirichlet(np.full(m, 0.3), n).tolist()):
        producer.send(app.given["input"], write(datum(i, row, None)), partition=i % 4)
    producer.flush()
    producer.close()
    with tempfile.TemporaryDirectory() as folder:
        process, log = app.process(Path(folder)), Path(folder) / "0.log"
        while "restored" not in log.read_text():
            assert process.poll() is None, log.read_text()
            time.sleep(0.01)
        before = cpu(process.pid)
        while app.lag():
            assert process.poll() is None, log.read_text()
            time.sleep(0.2)
        used = cpu(process.pid) - before
        process.terminate()
        process.wait(60)
    written = sum(len(app.outputs(p)) for p in range(4))
    assert written == n, f"{written} of {n} records came out"
    app.close()
    return 1e6 * used / n


def workers(rounds: int) -> dict[tuple[int, str], list[dict[str, float]]]:
    """Of whole workers."""
    from tests.kafka.broker.broker import Broker
    from tests.kafka.broker.registry import Apicurio

    found: dict[tuple[int, str], list[dict[str, float]]] = {}
    folder = Path(tempfile.mkdtemp(prefix="formats-"))
    broker, registry = Broker("4.4.0", folder / "broker"), Apicurio(folder / "registry")
    try:
        broker.start()
        registry.start()
        for _ in range(rounds):
            for m, n in WORKER_SIZES.items():
                measured = {
                    form: worker_cpu(m, n, form, broker.bootstrap_servers, registry.url)
                    for form in ("JSON", "Avro")
                }
                found.setdefault((m, "array"), []).append(measured)
    finally:
        broker.remove()
        registry.remove()
        folder.rmdir()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help="whole workers too")
    options = parser.parse_args()
    found: dict[tuple[int, str], list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for m in SIZES:
            for shape in ("array", "map"):
                found.setdefault((m, shape), []).append(handled(m, shape))
    table(found, "µs a prediction")
    if options.worker:
        table(workers(options.rounds), "worker, CPU µs a record")


if __name__ == "__main__":
    main()
