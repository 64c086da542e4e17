"""How long a record takes from its send to its output, and where the time goes.

    python benchmarks/latency.py [--rounds 3] [--python OTHER/.venv/bin/python ...]

Three brokers are started here. One worker takes 500 predictions a second in 4 partitions, at random
moments, and a label a second behind each. A worker in a process of its own writes down when each
record passed its stations; ``--python`` measures what other environments have installed, in turn
within each round. All are moments of one machine's clock.

- sent: before the writer hands it over
- polled: a poll of the worker has returned with it; until then writer, broker, fetch, other work
- taken: the order of time let it pass, and `Task.handle` began
- handled: its output is among the producer's batches
- due: the commit began
- delivered: outputs, positions and entries are acknowledged
- committed: offsets are sent and the transaction is ended
- visible: a reader of committed records has the output

A label is followed to the first output that was made with it: the entry of the learned log with it
lies below what the header `stream-can-learned` says.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from pipe import spread

CLASSES = 10
LABEL_DELAY = 1.0
"""Seconds from a prediction to its label."""
START = 10.0
"""Seconds at the beginning that are not counted: the brokers' code is not compiled yet, and the
files of new topics are written for the first time; commits take up to 400 ms there."""
END = 3.0
"""At the end, whose outputs are to come."""
STATIONS = ("sent", "polled", "taken", "handled", "due", "delivered", "committed", "visible")


# -- the worker's process: stream_can alone is imported there --------------------------------------


def work(settings: dict[str, Any], trace: Path) -> None:
    """Run a worker until SIGTERM; write down when its records passed."""
    from stream_can.kafka import Settings, Worker
    from stream_can.kafka.client.client import Client
    from stream_can.kafka.client.member import Member
    from stream_can.kafka.client.transaction import Transaction
    from stream_can.kafka.partitions import Partitions

    polled: list[Any] = []
    handled: list[Any] = []
    commits: list[dict[str, float]] = []
    poll, handle, commit = Member.poll, Partitions.handle, Partitions.commit
    deliver, end, ask = Transaction.deliver, Client.commit, Member._ask_ends
    asked: list[float] = []
    own = settings["input"]

    def noting_poll(self: Any, *args: Any) -> Any:
        found = poll(self, *args)
        now = time.time()
        polled.extend(
            (partition, records[0].offset, records[-1].offset, now)
            for (topic, partition), records in found.items()
            if topic == own
        )
        return found

    def noting_handle(self: Any, partition: int, records: list[Any]) -> None:
        offsets = [record.offset for record in records if record.topic == own]
        begin = time.time()
        handle(self, partition, records)
        if offsets:
            handled.append((partition, offsets[0], offsets[-1], begin, time.time()))

    def noting_commit(self: Any, *args: Any) -> None:
        commits.append({"due": time.time()})
        commit(self, *args)

    def noting_deliver(self: Any) -> None:
        deliver(self)
        if commits:
            commits[-1].setdefault("delivered", time.time())

    def noting_end(self: Any, *args: Any) -> None:
        end(self, *args)
        if commits:
            commits[-1]["committed"] = time.time()

    def noting_ask(self: Any, tps: list[Any]) -> Any:
        begin = time.time()
        try:
            return ask(self, tps)
        finally:
            if tps:
                asked.append(time.time() - begin)

    Member._ask_ends = noting_ask
    Member.poll, Partitions.handle, Partitions.commit = noting_poll, noting_handle, noting_commit
    Transaction.deliver, Client.commit = noting_deliver, noting_end
    worker = Worker(Settings(**settings))
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    before = time.process_time()
    worker.run()
    cpu = time.process_time() - before
    done = [one for one in commits if "committed" in one]
    trace.write_text(
        json.dumps(
            {"polled": polled, "handled": handled, "commits": done, "cpu": cpu, "asked": asked}
        )
    )


# -- the writer's process ------------------------------------------------------------------------


def write(
    servers: str, topics: tuple[str, str], partitions: int, rate: float, seconds: float
) -> Any:
    """Predictions at random moments and the label of each; (moment, partition, offset) of both."""
    from kafka import KafkaProducer

    rng = np.random.default_rng(0)
    n = int(rate * seconds)
    P = rng.dirichlet(np.full(CLASSES, 0.3), n)
    rows = [json.dumps({"probs": row.tolist()}).encode() for row in P]
    ys = [int(rng.choice(CLASSES, p=row)) for row in P]
    at = rng.exponential(1 / rate, n).cumsum()
    events = sorted(
        [(t, 0, i) for i, t in enumerate(at)] + [(t + LABEL_DELAY, 1, i) for i, t in enumerate(at)]
    )
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=0)
    for topic in topics:
        producer.partitions_for(topic)
    sent: tuple[list[Any], list[Any]] = ([], [])
    begin = time.time()
    for t, side, i in events:
        time.sleep(max(0.0, begin + t - time.time()))
        value = rows[i] if side == 0 else b'{"label": %d}' % ys[i]
        now = time.time()
        future = producer.send(topics[side], value, b"%d" % i, partition=i % partitions)
        sent[side].append((now, i % partitions, future))
    producer.flush()
    producer.close()
    return [[(now, p, future.value.offset) for now, p, future in side] for side in sent]


# -- the reader, and what comes of it ------------------------------------------------------------


def read(consumer: Any, stop: Any) -> list[tuple[int, int, float]]:
    """(number, learned, moment) of every output, until ``stop``."""
    found = []
    while not stop():
        polled = consumer.poll(50)
        now = time.time()
        for records in polled.values():
            for record in records:
                learned = next(int(v) for k, v in record.headers if k == "stream-can-learned")
                found.append((int(record.key), learned, now))
    return found


def entries_of(servers: str, topic: str) -> dict[tuple[int, int], int]:
    """(partition, offset) of a label -> the offset of the log's entry that has it."""
    from stream_can.stream import entry
    from tests.kafka.topics import read as read_topic

    found = {}
    for record in read_topic(servers, topic, 0):
        for part in entry.read(record.value).parts:
            for offset in np.frombuffer(part.offsets, "<i8").tolist():
                found[part.partition, offset] = record.offset
    return found


class Bench:
    def __init__(self, servers: str, options: argparse.Namespace, folder: Path) -> None:
        self.servers, self.options, self.folder, self.runs = servers, options, folder, 0

    def run(self, python: str) -> dict[str, Any]:
        from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

        self.runs += 1
        o, name = self.options, f"run-{self.runs}"
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        kinds = ("in", "labels", "out", "dead-letters", "state", "learned")
        topics: dict[str, Any] = {
            f"{name}-{kind}": {"num_partitions": 1 if kind == "learned" else o.partitions}
            for kind in kinds
        }
        topics[f"{name}-state"]["configs"] = {"cleanup.policy": "compact"}
        admin.create_topics(topics, wait_for_metadata=True)
        admin.close()
        time.sleep(3)  # until every broker knows them
        settings = {
            "bootstrap_servers": self.servers.split(","), "application_id": name, "instance": "0",
            "input": f"{name}-in", "labels": f"{name}-labels", "output": f"{name}-out",
            "classes": list(range(CLASSES)),
            "commit_interval_ms": o.interval,
        }  # fmt: skip
        trace, log = self.folder / f"{name}.json", self.folder / f"{name}.log"
        command = [python, "-W", "ignore", __file__, "--work", json.dumps(settings), str(trace)]
        consumer = KafkaConsumer(bootstrap_servers=self.servers, isolation_level="read_committed")
        tps = [TopicPartition(f"{name}-out", p) for p in range(o.partitions)]
        consumer.assign(tps)
        consumer.seek_to_beginning(*tps)
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.folder)
        try:
            deadline = time.monotonic() + 120
            while b"restored in" not in log.read_bytes():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(log.read_text()[-3000:])
                time.sleep(0.05)
            load = os.getloadavg()[0]
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                writing = pool.submit(
                    write, self.servers, (f"{name}-in", f"{name}-labels"), o.partitions, o.rate,
                    o.seconds + START + END,
                )  # fmt: skip
                ended: list[float] = []

                def stop() -> bool:
                    if writing.done() and not ended:
                        ended.append(time.time() + END)
                    return bool(ended) and time.time() > ended[0]

                outputs = read(consumer, stop)
                inputs, labels = writing.result()
            load = max(load, os.getloadavg()[0])
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            consumer.close()
        found = self.stations(json.loads(trace.read_text()), inputs, outputs)
        found["label"] = self.of_labels(
            labels, outputs, entries_of(self.servers, f"{name}-learned")
        )
        found["load"] = load
        return found

    def counted(self, moments: np.ndarray) -> np.ndarray:
        return (moments > moments[0] + START) & (
            moments < moments[0] + START + self.options.seconds
        )

    def stations(self, trace: dict[str, Any], inputs: Any, outputs: Any) -> dict[str, Any]:
        """When each prediction passed each station, shape (n, stations)."""
        visible = {number: at for number, _, at in outputs}
        times = np.full((len(inputs), len(STATIONS)), np.nan)
        due = np.array([one["due"] for one in trace["commits"]])
        ranges: dict[str, dict[int, Any]] = {}
        for what in ("polled", "handled"):
            for p in range(self.options.partitions):
                mine = sorted(one[1:] for one in trace[what] if one[0] == p)
                ranges.setdefault(what, {})[p] = np.array(mine)
        for number, (sent, p, offset) in enumerate(inputs):
            polled, handled = (ranges[what][p] for what in ("polled", "handled"))
            a = np.searchsorted(polled[:, 1], offset)
            b = np.searchsorted(handled[:, 1], offset)
            if a == len(polled) or b == len(handled):
                continue
            begin, end = handled[b, 2:]
            c = np.searchsorted(due, end)
            if c == len(due):
                continue
            commit = trace["commits"][c]
            times[number] = (
                sent, polled[a, 2], begin, end, commit["due"], commit["delivered"],
                commit["committed"], visible.get(number, np.nan),
            )  # fmt: skip
        times = times[self.counted(np.array([sent for sent, _, _ in inputs]))]
        if np.isnan(times).mean() > 0.01:
            raise RuntimeError(
                f"{np.isnan(times).any(axis=1).sum()} of {len(times)} are not followed"
            )
        times = 1000 * times[~np.isnan(times).any(axis=1)]
        steps = dict(zip(STATIONS[1:], np.diff(times, axis=1).T, strict=True))
        period = 1000 * float(np.median(np.diff(due)))
        return {
            "input": times[:, -1] - times[:, 0],
            "steps": steps,
            "period": period,
            "cpu": trace["cpu"],
            "asked": len(trace["asked"]),
            "asking": 1000 * sum(trace["asked"]),
        }

    def of_labels(self, labels: Any, outputs: Any, entries: dict[tuple[int, int], int]) -> Any:
        """Milliseconds from a label's send to the first output that was made with it."""
        order = sorted(outputs, key=lambda one: one[2])
        # The first moment at which an output with at least so much learned was seen.
        most = np.maximum.accumulate([learned for _, learned, _ in order])
        moments = np.array([at for _, _, at in order])
        sent = np.array([at for at, _, _ in labels])
        late = []
        for counts, (at, p, offset) in zip(self.counted(sent), labels, strict=True):
            if counts:
                first = np.searchsorted(most, entries[p, offset] + 1)
                late.append(1000 * (moments[min(first, len(moments) - 1)] - at))
        return np.array(late)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="instead of this one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15, help="that are counted")
    parser.add_argument("--rate", type=float, default=500, help="predictions a second")
    parser.add_argument("--interval", type=int, default=200, help="commit_interval_ms")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--brokers", type=int, default=3)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.kafka.broker.broker import VERSIONS, Cluster

    found: dict[str, list[dict[str, Any]]] = {python: [] for python in options.python}
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        cluster = Cluster(VERSIONS[0], Path(folder) / "brokers", options.brokers)
        try:
            cluster.start()
            bench = Bench(cluster.bootstrap_servers, options, Path(folder))
            for number in range(options.rounds):
                for python in options.python:
                    one = bench.run(str(Path(python).absolute()))
                    found[python].append(one)
                    print(
                        f"  round {number + 1} {python}:"
                        f" input {np.percentile(one['input'], [50, 99]).round()},"
                        f" label {np.percentile(one['label'], [50, 99]).round()},"
                        f" load {one['load']:.1f}", file=sys.stderr, flush=True,
                    )  # fmt: skip
        finally:
            cluster.remove()
    print(f"\n{options.brokers} brokers {VERSIONS[0]}, {options.partitions} partitions,", end=" ")
    print(f"{options.rate:g} predictions and labels a second, commit every {options.interval} ms\n")
    print("| | load | input to visible, ms: p50 | p99 | label to output: p50 | p99 |", end="")
    print(" between commits | worker CPU, s | asked for ends | waiting for that, ms |")
    print(f"|---|{'--:|' * 9}")
    for python, runs in found.items():
        cells = [" / ".join(f"{one['load']:.1f}" for one in runs)]
        for what in ("input", "label"):
            for q in (50, 99):
                cells.append(spread([float(np.percentile(one[what], q)) for one in runs], ".0f"))
        cells += [
            spread([one[what] for one in runs], ".0f")
            for what in ("period", "cpu", "asked", "asking")
        ]
        print(f"| {python} | {' | '.join(cells)} |")
    print(f"\n| ms until | {' | '.join(f'{python}: p50 | p99' for python in found)} |")
    print(f"|---|{'--:|' * 2 * len(found)}")
    for station in STATIONS[1:]:
        cells = [
            spread([float(np.percentile(one["steps"][station], q)) for one in runs], ".0f")
            for runs in found.values()
            for q in (50, 99)
        ]
        print(f"| {station} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        import logging

        logging.basicConfig(level=logging.INFO)
        work(json.loads(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
