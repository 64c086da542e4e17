"""How long a record takes to its output, and a label to the first output made with it.

    python benchmarks/latency.py [--rounds 3] [--seconds 20]

Three brokers are started here. ``stream-can run`` corrects and learns; it takes 500 predictions a
second in 4 partitions, at random moments, and a label a second behind each. A record is followed
from before its send to a reader of committed records that has its output. A label is followed to
the first output by a state that has learned it: the header ``stream-can-state`` names the state,
and its memory says which labels it knows. All are moments of one machine's clock; CPU is user and
system time of the process, from its start to its end.
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

CLASSES = 10
LABEL_DELAY = 1.0
"""Seconds from a prediction to its label."""
START = 10.0
"""Seconds at the beginning that are not counted: the brokers' code is not compiled yet, and the
files of new topics are written for the first time; commits take up to 400 ms there."""
END = 3.0
"""At the end, whose outputs are to come."""


def write(servers: str, topics: list[str], partitions: int, rate: float, seconds: float) -> Any:
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


def labels_of_states(servers: str, name: str) -> list[tuple[int, dict[int, int]]]:
    """The number of each state, and up to which offset of each partition it knows the labels."""
    from tests.kafka.judge import states_of

    states = states_of(servers, f"{name}-state")
    return [(one.number, one.memory.labels.get(f"{name}-labels", {})) for one in states]


def follow(
    servers: str, name: str, inputs: Any, labels: Any, outputs: list[tuple[int, int, float]]
) -> dict[str, np.ndarray]:
    """Moment of each record and label, and ms until it is seen."""
    visible = {key: when for key, _, when in outputs}
    records = [(now, visible[i]) for i, (now, _, _) in enumerate(inputs) if i in visible]
    first: dict[int, float] = {}  # state -> the first output by it
    for _, state, when in outputs:
        first.setdefault(state, when)
    states = labels_of_states(servers, name)
    numbers = np.array([number for number, _ in states])
    used = sorted(first)
    earliest = np.minimum.accumulate(np.array([first[one] for one in used])[::-1])[::-1]
    known: list[tuple[float, float]] = []
    for now, partition, offset in labels:
        ends = [ends.get(partition, 0) for _, ends in states]
        k = int(np.searchsorted(ends, offset, side="right"))  # the first state that has it
        j = len(used) if k == len(states) else int(np.searchsorted(used, numbers[k]))
        if j < len(used):
            known.append((now, float(earliest[j])))
    return {"input": np.array(records), "label": np.array(known)}


class Bench:
    """Brokers, and the runs over them."""

    def __init__(self, servers: str, options: argparse.Namespace, folder: Path) -> None:
        self.servers, self.options, self.folder, self.runs = servers, options, folder, 0

    def run(self) -> dict[str, Any]:
        """Figures of one run."""
        from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

        self.runs += 1
        o, name = self.options, f"run-{self.runs}"
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        many = {"num_partitions": o.partitions}
        made = {f"{name}-in": many, f"{name}-labels": many, f"{name}-out": many}
        admin.create_topics(made, wait_for_metadata=True)
        admin.close()
        config, log = self.folder / f"{name}.toml", self.folder / f"{name}.log"
        config.write_text(
            f"bootstrap_servers = {json.dumps(self.servers.split(','))}\n"
            f'application_id = "{name}"\ninput = "{name}-in"\nlabels = "{name}-labels"\n'
            f'output = "{name}-out"\nclasses = {list(range(CLASSES))}\n'
            f"commit_interval_ms = {o.interval}\ncreate_topics = true\n"
        )
        command = [sys.executable, "-W", "ignore", "-m", "stream_can", "run", str(config)]
        consumer = KafkaConsumer(bootstrap_servers=self.servers, isolation_level="read_committed")
        tps = [TopicPartition(f"{name}-out", p) for p in range(o.partitions)]
        consumer.assign(tps)
        consumer.seek_to_beginning(*tps)
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        outputs: list[tuple[int, int, float]] = []
        try:
            deadline = time.monotonic() + 120
            while b"by state" not in log.read_bytes():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(log.read_text()[-3000:])
                time.sleep(0.05)
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                writing = pool.submit(
                    write, self.servers, [f"{name}-in", f"{name}-labels"], o.partitions, o.rate,
                    o.seconds + START + END,
                )  # fmt: skip
                until = float("inf")
                while time.time() < until:
                    polled, now = consumer.poll(50), time.time()
                    if until == float("inf") and writing.done():
                        until = time.time() + END
                    for record in (one for records in polled.values() for one in records):
                        state = int(dict(record.headers)["stream-can-state"])
                        outputs.append((int(record.key), state, now))
                inputs, labels = writing.result()
            process.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                raise RuntimeError(log.read_text()[-3000:])
        finally:
            if process.poll() is None:
                process.kill()
            consumer.close()
        assert len(outputs) == len(inputs), f"{len(outputs)} outputs of {len(inputs)}"
        begin = inputs[0][0] + START
        found: dict[str, Any] = {"cpu": usage.ru_utime + usage.ru_stime}
        for what, times in follow(self.servers, name, inputs, labels, outputs).items():
            counted = (times[:, 0] > begin) & (times[:, 0] < begin + o.seconds)
            found[what] = 1000 * (times[counted, 1] - times[counted, 0])
        return found


def spread(values: list[float], form: str = ".0f") -> str:
    """Minimum / median / maximum."""
    return " / ".join(format(f(values), form) for f in (min, np.median, max))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--interval", type=int, default=200)
    options = parser.parse_args()
    from tests.kafka.broker.broker import VERSIONS, Cluster

    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        cluster = Cluster(VERSIONS[0], Path(folder) / "brokers", options.brokers)
        try:
            cluster.start()
            bench = Bench(cluster.bootstrap_servers, options, Path(folder))
            for _ in range(options.rounds):
                found.append(bench.run())
        finally:
            cluster.remove()
    print(f"{options.brokers} brokers {VERSIONS[0]}, {options.partitions} partitions,", end=" ")
    print(f"{options.rate:g} predictions and labels a second, commit every {options.interval} ms\n")
    print("| | p50, ms | p99, ms |\n|---|--:|--:|")
    for what, title in (("input", "record to output"), ("label", "label to an output with it")):
        cells = [spread([float(np.percentile(one[what], q)) for one in found]) for q in (50, 99)]
        print(f"| {title} | {cells[0]} | {cells[1]} |")
    print(f"\nCPU of the process, s: {spread([one['cpu'] for one in found], '.1f')}")


if __name__ == "__main__":
    main()
