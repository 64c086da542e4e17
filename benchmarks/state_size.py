"""What state costs on a real broker: bytes a commit, commits a second, seconds to restore.

One worker with four partitions, 400 predictions a second for ten seconds, m = 10, 100, 256.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App
from tests.kafka.topics import produce, wait

PARTITIONS, RATE, SECONDS = 4, 400, 10


def measure(servers: str, m: int) -> str:
    app = App(servers, partitions=PARTITIONS, classes=list(range(m)))
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(m, 0.3), 200)
    values = [json.dumps({"probs": row.tolist()}).encode() for row in rows]
    running = app.worker()
    wait("ready", lambda: running.error or running.worker.health.ready)
    metrics, number = running.worker.metrics, 0
    begin = time.monotonic()
    while time.monotonic() < begin + SECONDS:
        batch = []
        for _ in range(RATE // 4):
            partition, key = number % PARTITIONS, b"%d" % number
            batch.append((app.given["input"], partition, key, values[number % 200]))
            label = json.dumps({"label": number % m}).encode()
            batch.append((app.given["labels"], partition, key, label))
            number += 1
        produce(servers, batch)
        time.sleep(max(0, begin + number / RATE - time.monotonic()))
    wait("all committed", lambda: running.error or app.lag() == 0)
    seconds = time.monotonic() - begin
    commits, written = metrics.transactions["committed"], metrics.snapshot_bytes
    state = len(running.worker.tasks[0].to_bytes())
    each = 1000 * metrics.commits.sum / commits
    running.stop()
    again = app.worker()
    wait("ready", lambda: again.error or again.worker.health.ready)
    restore = again.worker.metrics.restores.sum
    again.stop()
    return (
        f"{m:>4}  {state:>9}  {written / commits:>12.0f}  {commits / seconds:>9.1f}"
        f"  {written / seconds / 1e6:>8.2f}  {each:>12.0f}  {restore:>9.2f}"
    )


def main() -> None:
    print("   m  bytes of a  bytes of a    commits        MB     ms of a    seconds")
    print("       partition      commit     a second  a second    commit     to restore 4")
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker("4.4.0", Path(folder) / "broker")
        try:
            broker.start()
            for m in (10, 100, 256):
                print(measure(broker.bootstrap_servers, m), flush=True)
        finally:
            broker.remove()


if __name__ == "__main__":
    main()
