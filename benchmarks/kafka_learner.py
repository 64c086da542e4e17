"""What the process that learns costs, and how long its restart takes.

    python benchmarks/kafka_learner.py [--only NAME ...] [--rows N]

One broker is started here. Predictions, and a second later by their own time the labels of one in
ten, are written, and corrected by a worker while nobody learns. Then ``stream-can learn`` runs
until a state has all of them, and once more, which reads that state. CPU is user and system time of
the process while it learns.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from processes import cpu

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


class Case(NamedTuple):
    """What is learned."""

    classes: int
    rows: int
    models: int = 0
    recent_mb: int = 64
    every: int = 10
    """One prediction in so many has a label."""


CASES = {
    "m = 10": Case(10, 600_000),
    "m = 100": Case(100, 120_000),
    "m = 1000": Case(1000, 12_000),
    "1,000 models, m = 10": Case(10, 200_000, models=1000),
    "10^6 predictions that wait": Case(10, 1_000_000, recent_mb=2000, every=4),
}
STAMP = 1_700_000_000_000
PARTITIONS = 4


def write(servers: str, name: str, case: Case) -> None:
    """The predictions and their labels."""
    from kafka import KafkaProducer

    rng = np.random.default_rng(0)
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=50, batch_size=1 << 18)
    P = np.round(rng.dirichlet(np.full(case.classes, 0.3), 10_000), 6)
    ys = np.array([rng.choice(case.classes, p=row / row.sum()) for row in P])
    rows = [row.tolist() for row in P]
    for i in range(case.rows):
        k, partition, key = i % len(rows), i % PARTITIONS, b"%d" % i
        says: dict[str, Any] = {"probs": rows[k]}
        label: dict[str, Any] = {"label": int(ys[k])}
        if case.models:
            says["model"] = label["model"] = f"m{i % case.models}"
        producer.send(
            f"{name}-in", json.dumps(says).encode(), key, partition=partition,
            timestamp_ms=STAMP + i,
        )  # fmt: skip
        if i % case.every == 0:
            producer.send(
                f"{name}-labels", json.dumps(label).encode(), key, partition=partition,
                timestamp_ms=STAMP + i + 1000,
            )  # fmt: skip
    producer.flush()
    producer.close()


class Process:
    """A process of ours and its log."""

    def __init__(self, command: str, config: Path, log: Path, *options: str) -> None:
        self.log, self._begin = log, log.stat().st_size if log.exists() else 0
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "stream_can", command, str(config),
                 *options], stdout=out, stderr=out,
            )  # fmt: skip

    def said(self, text: str) -> str:
        """What it said, once it has said that."""
        deadline = time.monotonic() + 600
        while text not in (said := self.log.read_text()[self._begin :]):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(said[-3000:])
            time.sleep(0.02)
        return said

    def stop(self) -> float:
        """End it; its memory at most in MB."""
        self.process.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = status
        if status:
            raise RuntimeError(self.log.read_text()[-3000:])
        return usage.ru_maxrss / 1024


def run(servers: str, name: str, case: Case, folder: Path) -> dict[str, float]:
    """Figures of one case."""
    from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

    from stream_can.kafka.client.guards import RebuildError
    from stream_can.kafka.client.options import Options
    from stream_can.kafka.client.readers import Readers
    from stream_can.kafka.stored import memory_of, newest_index
    from tests.kafka.topics import read

    admin = KafkaAdminClient(bootstrap_servers=servers)
    keep = {"num_partitions": PARTITIONS, "configs": {"retention.ms": "-1"}}
    topics = {f"{name}-{kind}": keep for kind in ("in", "labels", "out")}
    admin.create_topics(topics, wait_for_metadata=True)
    admin.close()
    config, log = folder / f"{name}.toml", folder / f"{name}.log"
    config.write_text(
        f"bootstrap_servers = {json.dumps(servers.split(','))}\n"
        f'application_id = "{name}"\ninput = "{name}-in"\nlabels = "{name}-labels"\n'
        f'output = "{name}-out"\nclasses = {list(range(case.classes))}\nlearn = false\n'
        f"create_topics = true\nrecent_mb = {case.recent_mb}\n"
        + (f'model = "model"\nmax_lanes = {case.models}\n' if case.models else "")
    )
    first = Process("learn", config, log)
    first.said("learning from state")
    first.stop()
    write(servers, name, case)
    readers = Readers(Options(servers.split(","), {}))
    worker = Process("run", config, log, "--instance", "worker")
    consumer = KafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed")
    tps = [TopicPartition(f"{name}-out", p) for p in range(PARTITIONS)]
    while sum(consumer.end_offsets(tps).values()) < case.rows:  # and the marks of transactions
        time.sleep(0.1)
    time.sleep(2)
    worker.stop()
    sent = {p: end for p, (_, end) in readers.spans(f"{name}-sent").items()}
    labels = {p: end for p, (_, end) in readers.spans(f"{name}-labels").items()}
    learner = Process("learn", config, log)
    learner.said("learning from state")
    learning, before = time.monotonic(), cpu(learner.process.pid)
    while True:
        found = newest_index(readers, f"{name}-state")  # of a state of many models a small part
        assert found is not None
        try:
            memory = memory_of(readers, f"{name}-state", found[1])
        except RebuildError:
            continue
        learned = memory.labels.get(f"{name}-labels", {})
        done = sum(learned.values()) >= sum(labels.values())
        if done and all(memory.sent.get(p, 0) >= end - 1 for p, end in sent.items()):
            break
        time.sleep(0.25)
    seconds = time.monotonic() - learning
    used = cpu(learner.process.pid) - before
    learner.stop()
    again = Process("learn", config, log)
    said = again.said("learning from state")
    restart = float(re.findall(r"read in ([\d.]+) s", said)[-1])
    megabytes = again.stop()
    found = [one for p in sent for one in read(servers, f"{name}-sent", p)]
    size = sum(len(one.value or b"") for one in found) / case.rows
    readers.close()
    consumer.close()
    return {
        "rows a second": case.rows / seconds, "CPU us a row": 1e6 * used / case.rows,
        "restart s": restart, "MB after it": megabytes, "sent bytes a row": size,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rows", type=int, help="predictions, in place of each case's")
    options = parser.parse_args()
    from tests.kafka.broker.broker import VERSIONS, Broker

    with tempfile.TemporaryDirectory(prefix="learner-") as folder:
        broker = Broker(VERSIONS[0], Path(folder) / "broker")
        try:
            broker.start()
            for number, what in enumerate(options.only):
                case = CASES[what]
                case = case._replace(rows=options.rows or case.rows)
                found = [
                    run(broker.bootstrap_servers, f"case-{number}-{k}", case, Path(folder))
                    for k in range(options.rounds)
                ]
                cells = {
                    name: " / ".join(
                        format(f([one[name] for one in found]), ".4g")
                        for f in (min, np.median, max)
                    )
                    for name in found[0]
                }
                print(f"{what}: {cells}", flush=True)
        finally:
            broker.remove()


if __name__ == "__main__":
    main()
