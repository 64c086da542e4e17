"""What learning costs on a real broker: bytes a commit, seconds to restore, from label to learned.

    python benchmarks/state_size.py [M:PARTITIONS ...]

One worker, 500 predictions and as many labels a second for ten seconds from another process, commit
interval 200 ms. A label is learned once the worker has folded the entry that holds it, which every
other worker does at about the same time. Bytes a commit leave out shared records, one in 30 s.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from kafka import KafkaProducer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, caught_up
from tests.kafka.topics import read
from tests.programs import wait

RATE, SECONDS = 500, 10


def write(servers: str, topics: tuple[str, str], rows: list[bytes], partitions: int) -> list[float]:
    """Predictions, a label right behind each; when each label was sent."""
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=0)
    sent = []
    begin = time.monotonic()
    for number in range(RATE * SECONDS):
        time.sleep(max(0.0, begin + number / RATE - time.monotonic()))
        where = {"key": b"%d" % number, "partition": number % partitions}
        producer.send(topics[0], rows[number % len(rows)], **where)
        sent.append(time.monotonic())
        producer.send(topics[1], b'{"label": %d}' % (number % 10), **where)
    producer.flush()
    producer.close()
    return sent


def measure(servers: str, m: int, partitions: int) -> str:
    app = App(servers, partitions=partitions, classes=list(range(m)))
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(m, 0.3), 200)
    values = [json.dumps({"probs": row.tolist()}).encode() for row in rows]
    running = app.worker()
    wait("ready", lambda: running.error or running.worker.health.ready)
    learned = running.worker.learned_log.replicas[0]
    folded: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            now, n = time.monotonic(), learned.corrector.n_labels
            folded.extend([now] * (n - len(folded)))
            time.sleep(0.002)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    begin = time.monotonic()
    topics = app.given["input"], app.given["labels"]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        sent = pool.submit(write, servers, topics, values, partitions).result()
    caught_up(app, running)
    wait("all learned", lambda: len(folded) == len(sent))
    ended.set()
    seconds = time.monotonic() - begin
    late = 1000 * (np.array(folded) - sent)[RATE:]  # the first second is the start's
    shared = len(running.worker.start.snapshot)
    running.stop()
    again = app.worker()
    wait("ready", lambda: again.error or again.worker.health.ready)
    restore = sample(again.worker.metrics, "restore_seconds_sum")
    again.stop()
    log = read(servers, f"{app.id}-learned", 0)[1:]
    entries = sum(len(record.value) for record in log)
    positions = sum(
        len(record.value)
        for p in range(partitions)
        for record in read(servers, f"{app.id}-state", p)
        if not record.key.startswith(b"shared")
    )
    commits = len(log)
    return (
        f"| {m} | {partitions} | {positions / commits:,.0f} | {entries / commits:,.0f}"
        f" | {shared:,} | {commits / seconds:.1f} | {np.percentile(late, 50):.0f}"
        f" | {np.percentile(late, 99):.0f} | {restore:.2f} |"
    )


def sample(metrics: Any, name: str) -> float:
    found = metrics.registry.get_sample_value(f"stream_can_{name}")
    assert found is not None
    return float(found)


def main(cells: list[str]) -> None:
    print("| classes | partitions | positions, bytes a commit | entry, bytes a commit |", end="")
    print(" shared record, bytes | commits a second | label to learned, ms: p50 | p99 |", end="")
    print(" restore, s |")
    print("|--:" * 9 + "|")
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker("4.4.0", Path(folder) / "broker")
        try:
            broker.start()
            for cell in cells:
                m, partitions = map(int, cell.split(":"))
                print(measure(broker.bootstrap_servers, m, partitions), flush=True)
        finally:
            broker.remove()


if __name__ == "__main__":
    main(sys.argv[1:] or ["10:4", "100:4", "256:4", "10:64", "100:64"])
