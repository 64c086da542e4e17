"""Exactly once, on this machine: a broker, two workers, one of them killed, every flight counted.

Starts Apache Kafka (from Maven Central, cached in .cache/), two `stream-can run` and a producer of
real flights with their labels; shows accuracy before and after as the labels arrive; kills one
worker half-way and starts it again; at the end reads what came out and checks that every flight is
there exactly once. Needs Java 17 and Maven. Run it: `make kafka-demo`; with `FORMAT=avro` a schema
registry is started too, the flights are Avro records of Confluent's serializer, and what comes out
is read by its deserializer.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np
from flights import Stream, replay, stream
from kafka import KafkaConsumer, TopicPartition
from kafka_producer import LABELS, PREDICTIONS, as_json, create_topics, produce
from prometheus_client.parser import text_string_to_metric_families

from stream_can import Corrector
from stream_can.scores import Scores

HERE = Path(__file__).resolve().parent
PARTITIONS = 4
OUTPUT = "flights-corrected"
EVERY_SECONDS = 2.0


class Workers:
    """Two processes of `stream-can run`, and what their /metrics say together."""

    def __init__(self, servers: str, ports: list[int], folder: Path, *options: str) -> None:
        self.servers, self.folder, self.options = servers, folder, options
        self.ports = dict(zip("01", ports, strict=True))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.seen: dict[int, Counter[str]] = {}
        """Process id -> its counters when they were last asked for: a killed one counts on."""

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "stream_can", "run", str(HERE / "kafka_flights.toml")]
        command += ["--bootstrap-servers", self.servers, "--instance", name, "--create-topics"]
        command += [*self.options, "--http-host", "127.0.0.1", "--http-port", str(self.ports[name])]
        with open(self.folder / f"worker-{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self, name: str) -> None:
        self.ask()
        self.running[name].kill()
        self.running[name].wait()

    def stop(self) -> list[int]:
        for process in self.running.values():
            process.terminate()
        return [process.wait(60) for process in self.running.values()]

    def ready(self, name: str) -> bool:
        if self.running[name].poll() is not None:
            sys.exit(f"worker {name} ended:\n{(self.folder / f'worker-{name}.log').read_text()}")
        return get(self.ports[name], "/readyz") is not None

    def learned(self) -> bool:
        """Whether the one that learns has read all labels, and all that was sent."""
        for port in self.ports.values():
            text = get(port, "/metrics") or ""
            samples = [
                (one.labels.get("source"), one.value)
                for family in text_string_to_metric_families(text)
                for one in family.samples
                if one.name == "stream_can_lag_records"
            ]
            if "stream_can_learning 1.0" in text and samples:
                return not any(value for source, value in samples if source != "input")
        return False

    def ask(self) -> Counter[str]:
        """The counters of all processes, those that were killed as they were seen last."""
        for name, process in self.running.items():
            text = get(self.ports[name], "/metrics") if process.poll() is None else None
            if text is not None:
                self.seen[process.pid] = Counter(
                    {
                        " ".join([sample.name, *sample.labels.values()]): sample.value
                        for family in text_string_to_metric_families(text)
                        for sample in family.samples
                        if family.type == "counter"
                    }
                )
        return sum(self.seen.values(), Counter())


def get(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def wait(what: str, done, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            sys.exit(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)


class Board:
    """One line every two seconds."""

    HEAD = ("seconds", "sent", "corrected", "labels", "accuracy before", "after", "of the last")

    def __init__(self, workers: Workers) -> None:
        self.workers, self.begin, self.sent = workers, time.monotonic(), 0
        self.before: Counter[str] = Counter()
        self.last = 0.0
        print("  ".join(self.HEAD))

    def show(self) -> Counter[str]:
        """The counters; prints a line if it is time to."""
        now = self.workers.ask()
        if time.monotonic() - self.last < EVERY_SECONDS:
            return now
        self.last = time.monotonic()
        scored = now["stream_can_scored_total"] - self.before["stream_can_scored_total"]
        cells = [
            f"{time.monotonic() - self.begin:.0f}",
            f"{self.sent}",
            f"{now['stream_can_predictions_total corrected']:.0f}",
            f"{now['stream_can_labels_total matched']:.0f}",
        ]
        for stage in ("before", "after"):
            name = f"stream_can_hits_total {stage}"
            share = (now[name] - self.before[name]) / scored if scored else float("nan")
            cells.append(f"{share:.1%}" if scored else "-")
        cells.append(f"{scored:.0f}")
        widths = [len(name) for name in self.HEAD]
        print("  ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)), flush=True)
        self.before = now
        return now

    def say(self, text: str) -> None:
        print(f"{'':>{len(self.HEAD[0])}}  -- {text}", flush=True)


class Json:
    """The format of the messages, unless another one is asked for."""

    options: tuple[str, ...] = ()
    """Of `stream-can run`."""
    write = staticmethod(as_json)

    def read(self, value: bytes) -> dict:
        return json.loads(value)


class Avro:
    """Avro records by Confluent's serializers, which a schema registry at a URL knows."""

    FLIGHT: ClassVar[dict] = {"type": "record", "name": "Flight", "fields": [
        {"name": "flight", "type": "int"},
        {"name": "probs", "type": {"type": "array", "items": "double"}}]}  # fmt: skip
    LABEL: ClassVar[dict] = {"type": "record", "name": "Label", "fields": [
        {"name": "label", "type": "string"}]}  # fmt: skip

    def __init__(self, url: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        self.options = ("--format", "avro", "--schema-registry", url)
        registry = SchemaRegistryClient({"url": url})
        self._writers = {
            topic: (
                AvroSerializer(registry, json.dumps(schema)),
                SerializationContext(topic, MessageField.VALUE),
            )
            for topic, schema in ((PREDICTIONS, self.FLIGHT), (LABELS, self.LABEL))
        }
        self._reader = AvroDeserializer(registry)
        self._output = SerializationContext(OUTPUT, MessageField.VALUE)

    def write(self, topic: str, message: dict) -> bytes:
        writer, context = self._writers[topic]
        return writer(message, context)

    def read(self, value: bytes) -> dict:
        return self._reader(value, self._output)


def outputs(
    servers: str, read=json.loads
) -> tuple[Counter[int], dict[int, tuple[list[float], list[float]]]]:
    """How often each flight came out (read_committed), and its row before and after."""
    consumer = KafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    tps = [TopicPartition(OUTPUT, p) for p in range(PARTITIONS)]
    consumer.assign(tps)
    # Of all that was written: the marks that end the last transactions may still be on their way.
    everything = KafkaConsumer(bootstrap_servers=servers)
    ends = everything.end_offsets(tps)
    everything.close()
    times: Counter[int] = Counter()
    rows: dict[int, tuple[list[float], list[float]]] = {}
    deadline = time.monotonic() + 120
    while any(consumer.position(tp) < ends[tp] for tp in tps) and time.monotonic() < deadline:
        for records in consumer.poll(500).values():
            for record in records:
                message = read(record.value)
                times[message["flight"]] += 1
                rows[message["flight"]] = message["probs_raw"], message["probs"]
    consumer.close()
    return times, rows


def verify(servers: str, flights: Stream, n: int, read=json.loads) -> bool:
    """Print what came out; whether it is every flight exactly once, its prediction untouched."""
    times, rows = outputs(servers, read)
    missing = [flight for flight in range(n) if not times[flight]]
    twice = [flight for flight, count in times.items() if count > 1]
    strange = [f for f, (raw, _) in rows.items() if f >= n or raw != flights.probs[f].tolist()]
    print(
        f"{OUTPUT}: {times.total()} records for {n} flights;"
        f" {len(missing)} missing, {len(twice)} twice, {len(strange)} changed on the way"
    )
    if missing or twice or strange:
        print(f"first of them: {missing[:3]} {twice[:3]} {strange[:3]}")
        return False
    y = flights.labels[:n]
    found: dict[str, Scores] = {"before": Scores(), "after": Scores()}
    for index, scores in enumerate(found.values()):
        scores.add(np.array([rows[flight][index] for flight in range(n)]), y)
    cut = flights._replace(
        **{name: getattr(flights, name)[:n] for name in ("probs", "labels", "time", "label_time")}
    )
    alone = replay(cut, Corrector(flights.classes, train_counts=flights.train_counts), id)
    found["in one process, each label at once"] = alone.corrected
    for name, scores in found.items():
        print(f"{name:>6}: accuracy {scores.accuracy:.2%}, log loss {scores.log_loss:.4f}")
    return True


def run(
    servers: str, ports: list[int], flights: Stream, n: int, folder: Path, form: Json | Avro
) -> bool:
    """The demo against a broker that runs."""
    create_topics(servers, PARTITIONS)
    workers = Workers(servers, ports, folder, *form.options)
    try:
        for name in "01":
            workers.start(name)
        wait("both workers ready", lambda: all(workers.ready(name) for name in "01"))
        board = Board(workers)
        board.say(f"two workers are ready and share {PARTITIONS} partitions")

        def sent(number: int) -> None:
            board.sent = number

        errors: list[BaseException] = []

        def send() -> None:
            try:
                produce(servers, flights, n, each=sent, write=form.write)
                board.sent = 2 * n
            except BaseException as error:
                errors.append(error)

        threading.Thread(target=send, daemon=True).start()
        killed, back, deadline = 0.0, 0.0, time.monotonic() + 120 + n / 500
        while True:
            now = board.show()
            done = now["stream_can_predictions_total corrected"]
            if errors:
                raise errors[0]
            if not killed and done >= 0.4 * n:
                workers.kill("1")
                killed = time.monotonic()
                board.say("worker 1 killed with SIGKILL, in the middle of a transaction or not")
                workers.start("1")
            if killed and not back and workers.ready("1"):
                back = time.monotonic()
                board.say(f"worker 1 is back with its state after {back - killed:.1f} s")
            # A commit that the killed process did not live to count is missing from the sum.
            if back and board.sent == 2 * n and lag(servers) == 0 and workers.learned():
                break
            if time.monotonic() > deadline:
                sys.exit("the workers do not get to the end")
            time.sleep(0.25)
        board.last = 0
        board.show()
        seconds = time.monotonic() - board.begin
        board.say(f"all records are committed: {2 * n} in {seconds:.0f} s")
        codes = workers.stop()
        print(f"workers stopped in order: exit codes {codes}")
        return verify(servers, flights, n, form.read) and codes == [0, 0]
    finally:
        for process in workers.running.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def lag(servers: str) -> int:
    """Records of the input that the group has not committed."""
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id="flights-can")
    tps = [TopicPartition(t, p) for t in ("flights",) for p in range(PARTITIONS)]
    try:
        ends = consumer.end_offsets(tps)
        return sum(ends[tp] - (consumer.committed(tp) or 0) for tp in tps)
    finally:
        consumer.close(autocommit=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--flights", type=int, default=10_000, help="only so many of 284,821")
    parser.add_argument("--format", choices=["json", "avro"], default="json")
    arguments = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    from tests.kafka.broker.broker import Broker, free_ports
    from tests.kafka.broker.registry import Apicurio

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # it, too, must clean up
    with tempfile.TemporaryDirectory(prefix="kafka-demo-") as name:
        folder = Path(name)
        print("starting Apache Kafka", flush=True)
        broker, registry = Broker("4.4.0", folder / "broker"), None
        try:
            broker.start()
            form: Json | Avro = Json()
            if arguments.format == "avro":
                print("starting a schema registry (Apicurio)", flush=True)
                registry = Apicurio(folder / "registry")
                registry.start()
                form = Avro(registry.url)
            print("training a model on January and February", flush=True)
            flights = stream()
            n = min(arguments.flights, len(flights.labels))
            good = run(broker.bootstrap_servers, free_ports(2), flights, n, folder, form)
        finally:
            broker.remove()
            if registry is not None:
                registry.remove()
    print("every flight came out exactly once" if good else "NOT exactly once", flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
