"""A worker under a steady load for half an hour: memory, commits and lag, minute by minute.

    python benchmarks/soak.py [--minutes 30] [--rate N]

First the worker takes a backlog as fast as it can; then predictions and as many labels, five
seconds late, come at half of that rate (or at ``--rate`` predictions a second), from a process of
their own. Memory is the worker's resident set; commits and lag are those of its own /metrics.
Topics keep a minute, so the disk does not fill up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import warnings
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.kafka.broker.broker import VERSIONS, Broker, free_ports
from tests.kafka.served import scrape, text_at
from tests.kafka.streams import App, caught_up
from tests.programs import wait

M, PARTITIONS, LATE = 10, 4, 5.0
CLASSES = [f"class {i}" for i in range(M)]
SHORT = {"retention.ms": "60000", "segment.bytes": str(16 << 20), "segment.ms": "60000"}
BACKLOG = 40_000


def write(servers: str, topics: tuple[str, str], rate: float, seconds: float) -> None:
    """Predictions at a rate for so long, and a label for each; none is skipped when it is late."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(M, 0.3), 5000)
    predictions = [json.dumps({"probs": p.tolist()}).encode() for p in P]
    labels = [json.dumps({"label": CLASSES[rng.choice(M, p=p)]}).encode() for p in P]
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=20, batch_size=65_536)
    begin, total = time.monotonic(), int(rate * seconds)
    sent = [0, 0]
    while sent[1] < total:
        ran = time.monotonic() - begin
        for side, (topic, texts, late) in enumerate(
            zip(topics, (predictions, labels), (0.0, LATE), strict=True)
        ):
            until = min(total, max(0, int(rate * (ran - late))))
            for n in range(sent[side], until):
                producer.send(topic, texts[n % 5000], b"k%d" % n, partition=n % PARTITIONS)
            sent[side] = until
        time.sleep(0.02)
    producer.flush()
    producer.close()


def resident(pid: int) -> float:
    """MB of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1000
    raise RuntimeError(f"process {pid} is gone")


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def below(now: Samples, before: Samples, share: float) -> str:
    """The bucket of the commits between two looks in which a quantile lies."""
    name = "stream_can_commit_seconds_bucket"
    counts = {
        float(dict(key[1])["le"]): count - before.get(key, 0)
        for key, count in now.items()
        if key[0] == name
    }
    total = counts[float("inf")]
    ends = sorted(end for end, count in counts.items() if count >= share * total)
    return f"< {1000 * ends[0]:g} ms" if total else "none"


def lag(found: Samples) -> float:
    return sum(value for (name, _), value in found.items() if name == "stream_can_lag_records")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, help="predictions a second, and as many labels")
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0])
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        broker = Broker(given.version, folder / "broker")
        stack.callback(broker.remove)
        broker.start()
        (port,) = free_ports(1)
        app = App(
            broker.bootstrap_servers, partitions=PARTITIONS, classes=CLASSES, http_port=port,
            http_host="127.0.0.1", commit_interval_ms=200,
            configs={kind: dict(SHORT) for kind in ("in", "labels", "out")},
        )  # fmt: skip
        stack.callback(app.close)
        topics = app.given["input"], app.given["labels"]
        write(app.servers, topics, BACKLOG / 5, 5)
        process, url = app.process(folder), f"http://127.0.0.1:{port}"
        stack.callback(process.kill)
        wait("ready", lambda: text_at(f"{url}/readyz"))
        begin = time.monotonic()
        caught_up(app)
        top = BACKLOG / (time.monotonic() - begin)
        rate = given.rate or top / 2
        print(f"Kafka {given.version}, m = {M}, {PARTITIONS} partitions: {top:.0f} predictions a")
        print(f"second with their labels at the most, {rate:.0f} in what follows\n")
        print("| minute | predictions/s | resident MB | commits: p50 | p99 | lag |")
        print("|--:|--:|--:|--:|--:|--:|", flush=True)
        seconds = 60 * given.minutes + 60
        writer = get_context("spawn").Process(
            target=write, args=(app.servers, topics, rate, seconds), daemon=True
        )
        writer.start()
        stack.callback(writer.kill)
        watch(process, writer, port, int(given.minutes))


def watch(worker: subprocess.Popen[bytes], writer: BaseProcess, port: int, minutes: int) -> None:
    """A line a minute, and the level of memory over the second half."""
    before, level = scrape(port), []
    for minute in range(1, minutes + 1):
        begin = time.monotonic()
        while time.monotonic() - begin < 60:
            time.sleep(1)
            if worker.poll() is not None or not writer.is_alive():
                raise SystemExit(f"ended early: worker {worker.poll()}, writer {writer.exitcode}")
        now, took = scrape(port), time.monotonic() - begin
        level.append(resident(worker.pid))
        name = "stream_can_predictions_total", frozenset({("result", "corrected")})
        print(
            f"| {minute} | {(now[name] - before[name]) / took:.0f} | {level[-1]:.1f}"
            f" | {below(now, before, 0.5)} | {below(now, before, 0.99)} | {lag(now):.0f} |",
            flush=True,
        )
        before = now
    half = level[len(level) // 2 :]
    slope = np.polyfit(range(len(half)), half, 1)[0] if len(half) > 1 else 0.0
    print(f"\nmemory over the second half: {min(half):.1f} to {max(half):.1f} MB,")
    print(f"{60 * slope:+.1f} MB an hour by the line through it")


if __name__ == "__main__":
    main()
