"""What the Kafka worker costs per record, beside a pass-through and what one would write instead.

    python benchmarks/kafka_worker.py --peers peers/bin/python [--rounds 5] [--only NAME ...]

Everything runs in one go on one broker (started here, or ``--bootstrap-servers``), the subjects one
after the other within each round. Figures are minimum / median / maximum of the rounds; CPU is user
and system time of the whole process, all its threads, from the first record to the last commit. The
ratio to the pass-through is taken within each round.

The peers live in an environment of their own::

    python -m venv peers
    peers/bin/pip install . quixstreams bytewax confluent-kafka kafka-python crc32c

and without ``--peers`` only stream_can's own worker runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tests.kafka.broker.broker import VERSIONS, Broker  # noqa: E402

PARTITIONS = 4
RECORDS = {10: 60_000, 100: 12_000}
COMMIT_MS = 200
RATE = 500.0
"""Messages a second while latency is measured."""
LATENCY_SECONDS = 6.0

OURS = {"corrector": "stream_can, exactly once",
        "pass-through": "pass-through, exactly once"}  # fmt: skip
PEERS = {"quix": "Quix Streams, exactly once", "bytewax": "bytewax, at least once",
         "plain": "plain kafka-python loop, no guarantee"}  # fmt: skip
TITLES = OURS | PEERS
BASES = ("pass-through",)


def messages(m: int, n: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and messages of a plausible classifier: about 300 bytes at m = 10, 2.2 kB at m = 100."""
    rng = np.random.default_rng(m)
    P = rng.dirichlet(np.full(m, 0.3), n).tolist()
    for i, p in enumerate(P):
        message = {"id": i, "model": "fraud-2024-06", "host": "web-03", "at": 0, "probs": p}
        yield b"key-%d" % i, json.dumps(message, separators=(",", ":")).encode()


class Bench:
    """One broker, its topics, and the processes over them."""

    def __init__(self, servers: str, peers: str | None, partitions: int) -> None:
        self.servers, self.peers, self.partitions = servers, peers, partitions
        self.admin = KafkaAdminClient(bootstrap_servers=servers)
        self.runs = 0

    def topic(self, name: str) -> str:
        new = {name: {"num_partitions": self.partitions, "configs": {"retention.ms": "-1"}}}
        self.admin.create_topics(new, wait_for_metadata=True)
        return name

    def fill(self, m: int, n: int) -> str:
        """A topic of n messages, spread over its partitions as producers do: in runs."""
        name = self.topic(f"input-{m}")
        producer = KafkaProducer(bootstrap_servers=self.servers, linger_ms=5, batch_size=65_536)
        size = 0
        for i, (key, value) in enumerate(messages(m, n)):
            producer.send(name, value, key, partition=i // 50 % self.partitions)
            size += len(value)
        producer.flush()
        producer.close()
        print(f"m = {m}: {n} messages of {size / n:.0f} bytes in {self.partitions} partitions")
        return name

    def command(self, name: str, *arguments: object) -> list[str]:
        if name in OURS:
            head = [sys.executable, str(HERE / "kafka_peers" / "ours.py"), name]
        else:
            file = {"bytewax": "bytewax_flow"}.get(name, name)
            assert self.peers is not None
            head = [self.peers, str(HERE / "kafka_peers" / f"{file}.py")]
        return [*head, self.servers, *map(str, arguments)]

    def start(
        self, name: str, source: str, m: int, records: int, commit_ms: int
    ) -> tuple[subprocess.Popen[str], str]:
        """A subject in a process of its own, with a fresh group and output topic."""
        self.runs += 1
        target = self.topic(f"output-{self.runs}")
        command = self.command(name, source, target, f"bench-{self.runs}", m, records, commit_ms)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        return process, target

    def drop(self, *names: str) -> None:
        try:
            self.admin.delete_topics(names)
        except KafkaError as error:
            print(f"could not delete {names}: {error}", file=sys.stderr)

    def run(self, name: str, source: str, m: int, records: int) -> dict[str, float]:
        process, target = self.start(name, source, m, records, COMMIT_MS)
        try:
            out, _ = process.communicate(timeout=300)
        finally:
            process.kill()
        lines = [line for line in out.splitlines() if line.startswith('{"records"')]
        if not lines:
            raise RuntimeError(f"{name} ended with {process.returncode} and no figures:\n{out}")
        found = json.loads(lines[-1])
        found["written"] = self.count(target)
        if found["written"] < records:
            raise RuntimeError(f"{name}: {found['written']} of {records} records came out")
        self.drop(target)
        return found

    def count(self, topic: str) -> int:
        """How many committed records a topic holds (offsets also count the transactions' marks)."""
        consumer = KafkaConsumer(
            topic, bootstrap_servers=self.servers, auto_offset_reset="earliest",
            isolation_level="read_committed", consumer_timeout_ms=500, max_poll_records=5000,
            check_crcs=False,
        )  # fmt: skip
        try:
            consumer.poll(5000)
            consumer.seek_to_beginning()
            n = 0
            while found := consumer.poll(1000):
                n += sum(map(len, found.values()))
            return n
        finally:
            consumer.close()

    def latency(self, name: str, m: int, commit_ms: int) -> tuple[float, float]:
        """p50 and p99, in ms, from before the input's send to a read_committed reader's poll."""
        source = self.topic(f"latency-{self.runs}")
        process, target = self.start(name, source, m, 0, commit_ms)
        ended = threading.Event()
        pool = [value for _, value in messages(m, 500)]

        def write() -> None:
            producer = KafkaProducer(bootstrap_servers=self.servers, linger_ms=0)
            rng, due, i = random.Random(0), time.monotonic(), 0
            while not ended.is_set():
                due += rng.expovariate(RATE)
                time.sleep(max(0.0, due - time.monotonic()))
                value = pool[i % 500].replace(b'"at":0', b'"at":%d' % time.time_ns(), 1)
                producer.send(source, value, b"key-%d" % i, partition=i % self.partitions)
                i += 1
            producer.close()

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        consumer = KafkaConsumer(
            target, bootstrap_servers=self.servers, auto_offset_reset="earliest",
            isolation_level="read_committed",
        )  # fmt: skip
        try:
            seen: list[float] = []
            deadline, until = time.monotonic() + 60, None
            while until is None or time.monotonic() < until:
                if until is None and time.monotonic() > deadline:
                    raise RuntimeError(f"{name}: no output within a minute")
                now_records = [r for rs in consumer.poll(100).values() for r in rs]
                now = time.time_ns()
                if now_records and until is None:  # what piled up during the start is not counted
                    until = time.monotonic() + 3 + LATENCY_SECONDS
                if until is not None and time.monotonic() > until - LATENCY_SECONDS:
                    for record in now_records:
                        sent = record.value.partition(b'"at":')[2].partition(b",")[0]
                        seen.append((now - int(sent)) / 1e6)
            if len(seen) < RATE * LATENCY_SECONDS / 2:
                raise RuntimeError(f"{name}: only {len(seen)} records in {LATENCY_SECONDS} s")
            return float(np.percentile(seen, 50)), float(np.percentile(seen, 99))
        finally:
            ended.set()
            writer.join(10)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            consumer.close()
            self.drop(source, target)


def spread(values: list[float], form: str = "{:.0f}") -> str:
    return " / ".join(form.format(f(values)) for f in (min, median, max)) if values else ""


def throughput(bench: Bench, subjects: list[str], sizes: dict[int, int], rounds: int) -> None:
    for m, n in sizes.items():
        source = bench.fill(m, n)
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in subjects}
        for number in range(rounds):
            for name in subjects:
                try:
                    figures = bench.run(name, source, m, n)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"round {number + 1}, {name}: {error}", file=sys.stderr)
                    continue
                found[name].append({**figures, "round": number})
                us = 1e6 * figures["cpu"] / n
                print(f"  round {number + 1} {name}: {us:.1f} us", file=sys.stderr, flush=True)
        bases = [{run["round"]: run["cpu"] for run in found.get(name, [])} for name in BASES]
        print(f"\nm = {m}, {n} records, {rounds} rounds\n")
        columns = " | ".join(f"÷ {TITLES[name]}" for name in BASES)
        print(f"| | messages/s | CPU us/record | peak MB | {columns} |")
        print(f"|---|--:|--:|--:{'|--:' * len(BASES)}|")
        for name, runs in found.items():
            if not runs:
                print(f"| {TITLES[name]} | failed | | |{' |' * len(BASES)}")
                continue
            ratios = [
                spread([r["cpu"] / base[r["round"]] for r in runs if r["round"] in base], "{:.2f}")
                for base in bases
            ]
            print(
                f"| {TITLES[name]} | {spread([n / r['seconds'] for r in runs])}"
                f" | {spread([1e6 * r['cpu'] / n for r in runs], '{:.1f}')}"
                f" | {max(r['peak_mb'] for r in runs):.0f}"
                f" | {' | '.join(ratios)} |"
            )
        print(flush=True)
        bench.drop(source)


def latencies(bench: Bench, subjects: list[str], rounds: int, intervals: list[int]) -> None:
    shown = [name for name in subjects if name != "plain"]
    cells = [(name, ms) for name in shown for ms in intervals]
    found: dict[tuple[str, int], list[tuple[float, float]]] = {cell: [] for cell in cells}
    for number in range(rounds):
        for name, ms in cells:
            try:
                p50, p99 = bench.latency(name, 10, ms)
            except RuntimeError as error:
                print(f"round {number + 1}, {name}: {error}", file=sys.stderr)
                continue
            found[name, ms].append((p50, p99))
            print(f"  round {number + 1} {name} {ms} ms: {p50:.0f} {p99:.0f}", file=sys.stderr)
    print(f"\nEnd to end at {RATE:.0f} messages a second, m = 10, ms\n")
    print("| | commit interval | p50 | p99 |")
    print("|---|--:|--:|--:|")
    for (name, ms), pairs in found.items():
        p50, p99 = (spread(list(side)) for side in zip(*pairs, strict=True)) if pairs else ("", "")
        print(f"| {TITLES[name]} | {ms} | {p50} | {p99} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="python of the environment that has the peers")
    parser.add_argument("--bootstrap-servers", help="an idle broker; by default one is started")
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(TITLES), help="these subjects alone")
    parser.add_argument("--m", nargs="+", type=int, choices=list(RECORDS), default=list(RECORDS))
    parser.add_argument("--records", type=int, help="in place of 60,000 (m = 10), 12,000 (100)")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--no-latency", action="store_true")
    parser.add_argument("--no-throughput", action="store_true")
    parser.add_argument("--intervals", nargs="+", type=int, default=[COMMIT_MS])
    options = parser.parse_args()
    subjects = options.only or [*OURS, *(PEERS if options.peers else ())]
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as directory:
        broker = None
        if options.bootstrap_servers is None:
            broker = Broker(options.version, Path(directory) / "broker")
            broker.start()
        try:
            servers = options.bootstrap_servers or broker.bootstrap_servers
            bench = Bench(servers, options.peers, options.partitions)
            print(f"Apache Kafka {broker.version if broker else 'at ' + servers}", flush=True)
            if not options.no_throughput:
                sizes = {m: options.records or RECORDS[m] for m in options.m}
                throughput(bench, subjects, sizes, options.rounds)
            if not options.no_latency:
                latencies(bench, subjects, options.rounds, options.intervals)
            bench.admin.close()
        finally:
            if broker is not None:
                broker.remove()


if __name__ == "__main__":
    main()
