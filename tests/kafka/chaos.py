"""Kill, freeze and add workers, kill and stop the broker, then compare every output bit by bit.

    python -m tests.kafka.chaos --seconds 600 --seed 1 --version 4.4.0 --brokers 3

An idempotent producer writes predictions, labels and unreadable records all the while. Afterwards
the topics are checked from themselves alone: the learned log folded, every output and every entry
made again, bit by bit; see `offline`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

from stream_can.kafka.client.guards import close
from tests.kafka.broker.broker import VERSIONS, Broker, Cluster
from tests.kafka.streams import App, label, prediction
from tests.programs import PATIENCE, wait

SESSION_SECONDS = 3.0
CLIENT = {
    "session_timeout_ms": int(1000 * SESSION_SECONDS),
    "heartbeat_interval_ms": 300,
    "transaction_timeout_ms": 5_000,
    "fetch_max_wait_ms": 100,
    "metadata_max_age_ms": 2_000,
}
UNREADABLE = [b"", b"{", b'{"probs":[NaN,1]}', b'{"probs":[1,2,3,4]}', b"\xff\xfe", b"[" * 10_000]
LABEL_DELAY = 1.0
"""Seconds from a prediction to its label."""
STUCK_SECONDS = 75.0
"""Trap: kafka-python's producer can wait for a batch for ever, past its own delivery time-out."""


class Writer(threading.Thread):
    """Writes the input until told to stop, through every outage."""

    def __init__(self, app: App, rate: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.app, self.rate, self.rng = app, rate, random.Random(seed)
        self.ended = threading.Event()
        self.open = 0
        self.moved = time.monotonic()
        self.start()

    def run(self) -> None:
        rng, given = self.rng, self.app.given
        producer = None
        due: collections.deque[tuple[float, int, bytes, bytes]] = collections.deque()
        for number in itertools.count():
            if self.ended.is_set():
                break
            partition = rng.randrange(self.app.partitions)
            key, value, truth = prediction(rng, number)
            if rng.random() < 0.01:
                value = rng.choice(UNREADABLE)
            due.append((time.monotonic() + LABEL_DELAY, partition, key, label(truth)))
            if rng.random() < 0.01:
                due.append((time.monotonic() + LABEL_DELAY, partition, key, b'{"label": "z"}'))
            try:
                producer = producer or KafkaProducer(
                    bootstrap_servers=self.app.servers, linger_ms=20, delivery_timeout_ms=60_000,
                    request_timeout_ms=10_000, reconnect_backoff_max_ms=500,
                    metadata_max_age_ms=1_000,
                )  # fmt: skip
                self._send(producer, given["input"], partition, key, value)
                while due and due[0][0] < time.monotonic():
                    _, partition, key, value = due.popleft()
                    self._send(producer, given["labels"], partition, key, value)
            except (KafkaError, OSError, ValueError):  # or a partition not known yet
                time.sleep(0.2)
            if self.open and time.monotonic() - self.moved > STUCK_SECONDS:
                close(producer, 0)
                producer, self.open = None, 0
            time.sleep(rng.expovariate(self.rate))
        if producer is not None:
            with contextlib.suppress(KafkaError):
                producer.flush(STUCK_SECONDS)
            close(producer, 1)

    def _send(self, producer: KafkaProducer, *record: object) -> None:
        topic, partition, key, value = record
        future = producer.send(topic, value, key, partition=partition)
        self.moved = time.monotonic() if not self.open else self.moved
        self.open += 1
        future.add_both(self._settled)

    def _settled(self, _: object) -> None:
        """Stored or given up: what is stored counts, not what was meant to be."""
        self.open -= 1
        self.moved = time.monotonic()


class Chaos:
    """One run; ``counts`` says what was done."""

    def __init__(
        self, broker: Broker | Cluster, directory: Path, seed: int, *, partitions: int = 4,
        rate: float = 300, learn: str = "together",
    ) -> None:  # fmt: skip
        self.rng = random.Random(seed)
        self.brokers = broker.brokers if isinstance(broker, Cluster) else [broker]
        self.directory = directory
        self.app = App(
            broker.bootstrap_servers, partitions=partitions, client=CLIENT, learn=learn, ask=0.05
        )
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.seen: dict[str, int] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.script: list[Callable[[], None]] = []
        """What to do first; afterwards it is drawn."""
        self.behind = 0.0
        """Seconds from the last fault until everything written was committed."""
        self.writer = Writer(self.app, rate, seed)

    def run(self, seconds: float) -> int:
        """Cause trouble for so long, let the workers catch up, compare. Returns the records."""
        try:
            for name in ("0", "1"):
                self.begin(name)
            deadline = time.monotonic() + seconds
            while self.script or time.monotonic() < deadline:
                self.sleep(0.3, 2)
                many = len(self.brokers) > 1
                trouble = self.script.pop(0) if self.script else self.rng.choices(
                    [self.kill_worker, self.freeze_worker, self.join_and_leave, self.kill_broker,
                     self.stop_broker, self.freeze_broker, self.kill_all_brokers],
                    [5, 2, 2, 2, 1, 2 * many, many],
                )[0]  # fmt: skip
                trouble()
                self.revive()
            last = time.monotonic()
            self.writer.ended.set()
            self.writer.join(PATIENCE)
            self.catch_up()
            self.behind = time.monotonic() - last
            for name, process in self.workers.items():
                self.wait_for(name)
                process.terminate()
            codes = [process.wait(PATIENCE) for process in self.workers.values()]
            assert codes == [0] * len(codes), f"exit codes {codes}"
            return self.app.verify()
        finally:
            self.app.close()
            self.writer.ended.set()
            for process in self.workers.values():
                process.kill()
                process.wait()

    def begin(self, name: str) -> None:
        log = self.directory / f"{name}.log"
        self.seen[name] = log.stat().st_size if log.exists() else 0
        self.workers[name] = self.app.process(self.directory, name)

    def wait_for(self, name: str) -> None:
        """Until a worker has joined: before, SIGTERM finds nobody who handles it."""
        log = self.directory / f"{name}.log"
        wait(f"{log}: joined", lambda: b"restored" in log.read_bytes()[self.seen[name] :])

    def revive(self) -> None:
        """Start again whatever ended, as a supervisor would: 4 is no broker for a minute."""
        for name, process in list(self.workers.items()):
            if process.poll() is not None:
                log = self.directory / f"{name}.log"
                tail = log.read_text()[-1500:]
                assert process.returncode in (-9, 4), (
                    f"{name} ended with {process.returncode}: {tail}"
                )
                self.begin(name)

    def sleep(self, least: float, most: float) -> None:
        time.sleep(self.rng.uniform(least, most))

    def kill_worker(self) -> None:
        self.counts["worker kill -9"] += 1
        self.workers[self.rng.choice("01")].kill()
        self.sleep(0, 2)

    def freeze_worker(self) -> None:
        self.counts["worker SIGSTOP"] += 1
        pid = self.workers[self.rng.choice("01")].pid
        os.kill(pid, signal.SIGSTOP)
        self.sleep(SESSION_SECONDS + 0.5, SESSION_SECONDS + 5)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def join_and_leave(self) -> None:
        self.counts["worker joined and left"] += 1
        self.begin("2")
        process = self.workers["2"]
        self.wait_for("2")
        self.sleep(0.5, 2)
        process.terminate()
        code = process.wait(PATIENCE)
        assert code == 0, f"{self.directory}/2.log: left with {code}"
        del self.workers["2"]

    def kill_broker(self) -> None:
        self.counts["broker kill -9"] += 1
        broker = self.rng.choice(self.brokers)
        broker.kill()
        self.sleep(0.2, 3)
        broker.start()

    def stop_broker(self) -> None:
        self.counts["broker stop"] += 1
        broker = self.rng.choice(self.brokers)
        broker.stop()
        self.sleep(0.2, 3)
        broker.start()

    def freeze_broker(self) -> None:
        self.counts["broker SIGSTOP"] += 1
        process = self.rng.choice(self.brokers).process
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        self.sleep(1, 20)
        os.kill(process.pid, signal.SIGCONT)

    def kill_all_brokers(self) -> None:
        self.counts["all brokers kill -9"] += 1
        for broker in self.brokers:
            broker.kill()
        self.sleep(0.2, 3)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Broker.start, self.brokers))

    def add_partition(self) -> None:
        self.counts["partition added"] += 1
        self.app.grow(self.app.partitions + 1)

    def catch_up(self, seconds: float = PATIENCE) -> None:
        """Wait until the group has committed the end of all input and labels."""
        deadline = time.monotonic() + seconds
        while (lag := self.app.lag()) > 0:
            self.revive()
            assert time.monotonic() < deadline, f"{lag} records still behind after {seconds} s"
            time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0])
    parser.add_argument("--learn", choices=["together", "apart"], default="together")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    make = Cluster if options.brokers > 1 else Broker
    broker = make(options.version, directory / "broker")
    try:
        broker.start()
        chaos = Chaos(broker, directory, options.seed, learn=options.learn)
        chaos.script = [chaos.kill_worker, chaos.add_partition]
        compared = chaos.run(options.seconds)
    except BaseException:
        options.keep = True
        print(f"logs and data are in {directory}", file=sys.stderr)
        raise
    finally:
        broker.kill()
        if not options.keep:
            broker.remove()
            shutil.rmtree(directory / "broker", ignore_errors=True)
            for left in sorted(directory.glob("*"), reverse=True):
                left.unlink()
            directory.rmdir()
    done = ", ".join(f"{n} x {what}" for what, n in sorted(chaos.counts.items()) if n)
    checked = chaos.app.checked
    print(
        f"{options.version} seed {options.seed}: exact, {compared} records,"
        f" {checked.learned} labels in {checked.entries} entries,"
        f" {checked.unknown} without receipt; {done};"
        f" caught up {chaos.behind:.0f} s after the last"
    )


if __name__ == "__main__":
    main()
