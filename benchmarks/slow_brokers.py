"""How fast a worker takes a backlog from three brokers that are slow to be asked.

    python benchmarks/slow_brokers.py [--rounds 3] [--python OTHER/.venv/bin/python ...]

Three brokers are started here, with predictions and a label for each in 8 partitions. A proxy in
front of each, all in a process of their own, holds every request back for 20 ms (``--delay``)
before it passes it on, however many are on their way, and counts it; answers pass at once. The
clock runs from the worker's "restored" to the moment when the group has committed everything.
``--python`` measures what other environments have installed, in turn within each round. Figures are
minimum / median / maximum of the rounds; a lag request is a ListOffsets.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.kafka.broker.broker import VERSIONS, Cluster, free_ports

PARTITIONS, CLASSES = 8, 10
LABEL_DELAY = 1000
"""Rows, and milliseconds, from a prediction to its label."""
MOST_SECONDS = 300.0
"""Until a round is given up."""
LIST_OFFSETS, ADD_OFFSETS = 2, 25
"""Kinds of requests; the second is sent once in each transaction that commits offsets."""


# -- the proxies, in their own process -----------------------------------------------------------


async def forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: int, delay: float,
    counts: Counter[int],
) -> None:  # fmt: skip
    """One connection: each request goes on ``delay`` seconds after it came."""
    answers, requests = await asyncio.open_connection("127.0.0.1", to)
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    clock = asyncio.get_running_loop().time

    async def take() -> None:
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(head, "big"))
            counts[int.from_bytes(body[:2], "big")] += 1
            due.put_nowait((clock() + delay, head + body))

    async def send() -> None:
        while True:
            at, request = await due.get()
            await asyncio.sleep(at - clock())
            requests.write(request)
            await requests.drain()

    async def answer() -> None:
        while data := await answers.read(1 << 18):
            writer.write(data)
            await writer.drain()

    tasks = [asyncio.ensure_future(part()) for part in (take, send, answer)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for end in (writer, requests):
        end.close()


def proxies(ports: dict[int, int], delay: float, told: Connection) -> None:
    """Listen on each port for the broker at another; say the counts when asked."""
    counts: Counter[int] = Counter()

    async def main() -> None:
        ended = asyncio.Event()
        for port, to in ports.items():
            await asyncio.start_server(
                lambda r, w, to=to: forward(r, w, to, delay, counts), "127.0.0.1", port
            )

        def asked() -> None:
            try:
                told.recv()
                told.send(dict(counts))
            except EOFError:
                ended.set()

        asyncio.get_running_loop().add_reader(told.fileno(), asked)
        told.send("listening")
        await ended.wait()

    asyncio.run(main())


@contextlib.contextmanager
def slow(cluster: Cluster, delay: float) -> Iterator[tuple[str, Connection]]:
    """Give each broker that is still to be started a second plain listener, behind a proxy."""
    listen = free_ports(2 * len(cluster.brokers))
    ports = dict(zip(listen[::2], listen[1::2], strict=True))
    for (port, to), broker in zip(ports.items(), cluster.brokers, strict=True):
        at = f"PLAIN://{broker.bootstrap_servers}"
        config = broker.config.read_text()
        controller = re.search("^listeners=.*,(CONTROLLER.*)", config, re.M)
        assert controller is not None
        broker.config.write_text(
            f"{config}\nlisteners={at},SLOW://127.0.0.1:{to},{controller[1]}\n"
            f"advertised.listeners={at},SLOW://127.0.0.1:{port}\n"
            "listener.security.protocol.map=PLAIN:PLAINTEXT,SLOW:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        )  # the last of two lines with a name counts
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=proxies, args=(ports, delay, theirs), daemon=True
    )
    process.start()
    try:
        ours.recv()
        yield ",".join(f"127.0.0.1:{port}" for port in ports), ours
    finally:
        process.kill()
        process.join()


# -- the worker ----------------------------------------------------------------------------------


def fill(servers: str, n: int) -> None:
    """n predictions and their labels."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    new = {"num_partitions": PARTITIONS, "configs": {"retention.ms": "-1"}}
    admin.create_topics({"in": new, "labels": new}, wait_for_metadata=True)
    admin.close()
    begin = int(time.time() * 1000) - n  # older ones would be past the outputs' retention
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(CLASSES, 0.3), n)
    truth = [int(rng.choice(CLASSES, p=p / p.sum())) for p in P]
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5, batch_size=65_536)
    for i, p in enumerate(P.tolist()):
        key, where = b"key-%d" % i, {"partition": i % PARTITIONS}
        value = json.dumps({"id": i, "model": "fraud-2024-06", "host": "web-03", "probs": p})
        producer.send("in", value.encode(), key, timestamp_ms=begin + i, **where)
        value = json.dumps({"label": f"class-{truth[i]}"})
        stamp = begin + i + LABEL_DELAY
        producer.send("labels", value.encode(), key, timestamp_ms=stamp, **where)
    producer.flush()
    producer.close()


class Bench:
    """The brokers with the backlog, and workers over it."""

    def __init__(self, servers: str, slow: str, counts: Connection, n: int, every: int) -> None:
        self.servers, self.slow, self.n, self.every = servers, slow, n, every
        self._counts = counts
        self.admin = KafkaAdminClient(bootstrap_servers=servers)
        self.consumer = KafkaConsumer(
            bootstrap_servers=servers, isolation_level="read_committed", check_crcs=False
        )
        tps = [TopicPartition(topic, p) for topic in ("in", "labels") for p in range(PARTITIONS)]
        self.ends = self.ends_of(tps)
        self.runs = 0

    def ends_of(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        """One by one: of several, those are left out whose leader is not known yet."""
        return {tp: self.consumer.end_offsets([tp])[tp] for tp in tps}

    def counts(self) -> Counter[int]:
        self._counts.send("counts")
        return Counter(self._counts.recv())

    def close(self) -> None:
        self.admin.close()
        self.consumer.close()

    def done(self, group: str) -> bool:
        found = self.admin.list_group_offsets([group])[group]
        return all(tp in found and found[tp].offset >= end for tp, end in self.ends.items())

    def run(self, python: str, directory: Path) -> dict[str, float]:
        self.runs += 1
        name = f"run-{self.runs}"
        settings = {
            "bootstrap_servers": self.slow.split(","), "application_id": name, "instance": "0",
            "input": "in", "labels": "labels", "output": f"{name}-out", "create_topics": True,
            "classes": [f"class-{i}" for i in range(CLASSES)], "commit_every": self.every,
        }  # fmt: skip
        config, log = directory / f"{name}.toml", directory / f"{name}.log"
        lines = (f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        config.write_text("".join(lines))
        program = str(Path(python).absolute())
        command = [program, "-W", "ignore", "-m", "stream_can", "run", str(config)]
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=directory)
        deadline = time.monotonic() + MOST_SECONDS

        def wait_for(what: str, condition: bool) -> bool:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{python}: not {what}\n{log.read_text()[-3000:]}")
            return not condition

        try:
            while wait_for("restored", b"restored in" in log.read_bytes()):
                time.sleep(0.002)
            begin, before = time.monotonic(), self.counts()
            while wait_for("committed", self.done(name)):
                time.sleep(0.01)
            seconds, asked = time.monotonic() - begin, self.counts() - before
            process.terminate()
            process.wait(60)
        finally:
            process.kill()
            process.wait()
        outputs, markers = self.outputs(f"{name}-out")
        if outputs != self.n:
            raise RuntimeError(f"{python}: {outputs} outputs of {self.n} predictions")
        transactions = asked[ADD_OFFSETS]
        return {
            "records/s": 2 * self.n / seconds, "lag requests": asked[LIST_OFFSETS],
            "transactions": transactions, "records each": 2 * self.n / transactions,
            "partitions each": markers / transactions, "requests": asked.total(),
        }  # fmt: skip

    def outputs(self, topic: str) -> tuple[int, int]:
        """How many records a topic holds, and how many marks of transactions in its partitions."""
        tps = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        self.consumer.assign(tps)
        self.consumer.seek_to_beginning(*tps)
        ends = self.ends_of(tps)
        n, deadline = 0, time.monotonic() + 60
        while any(self.consumer.position(tp) < end for tp, end in ends.items()):
            n += sum(map(len, self.consumer.poll(500, max_records=50_000).values()))
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} cannot be read to its end")
        return n, sum(ends.values()) - n


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="instead of this one")
    parser.add_argument(
        "--records", type=int, default=20_000, help="predictions, and as many labels"
    )
    parser.add_argument("--delay", type=float, default=20, help="of each request, in ms")
    parser.add_argument("--commit-every", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0])
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {python: [] for python in options.python}
    with tempfile.TemporaryDirectory(prefix="slow-brokers-") as folder:
        cluster = Cluster(options.version, Path(folder) / "brokers")
        with slow(cluster, options.delay / 1000) as (servers, counts):
            try:
                cluster.start()
                fill(cluster.bootstrap_servers, options.records)
                bench = Bench(
                    cluster.bootstrap_servers, servers, counts, options.records,
                    options.commit_every,
                )  # fmt: skip
                for number in range(options.rounds):
                    for python in options.python:
                        figures = bench.run(python, Path(folder))
                        found[python].append(figures)
                        line = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
                        print(f"  round {number + 1} {python}: {line}", file=sys.stderr, flush=True)
                bench.close()
            finally:
                cluster.remove()
    total = 2 * options.records
    print(f"\nKafka {options.version}, {total} records, {options.delay:g} ms a request\n")
    names = list(found[options.python[0]][0])
    print(f"| | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
    for python, runs in found.items():
        cells = []
        for name in names:
            values = [run[name] for run in runs]
            form = "{:.1f}" if name == "partitions each" else "{:.0f}"
            cells.append(" / ".join(form.format(f(values)) for f in (min, median, max)))
        print(f"| {python} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
