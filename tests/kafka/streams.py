"""A stream of predictions and late labels, a worker over it, and what its output must be."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError, RetriableError

from stream_can.kafka import Settings, Worker
from stream_can.stream.replica import Replica
from tests.kafka.offline import Checked, verify
from tests.kafka.topics import create, produce, read, unique, until_closed
from tests.programs import PATIENCE, wait

STAMP = 1_700_000_000_000
"""When the first record was made, in milliseconds."""
CLASSES = ["a", "b", "c", "d"]
COMMAND = [sys.executable, "-W", "ignore", "-m", "stream_can", "run"]
WRONG_CLOCK = """\
import sys, time
real = time.time
time.time = lambda: real() + {}
from stream_can.cli.main import main
sys.exit(main())
"""
QUICK = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500, "fetch_max_wait_ms": 100}
STEADY = {
    "session_timeout_ms": 600_000, "max_poll_interval_ms": 600_000, "request_timeout_ms": 120_000,
    "delivery_timeout_ms": 300_000, "max_block_ms": 120_000, "transaction_timeout_ms": 600_000,
}  # fmt: skip
"""For what counts what one worker did: one that stood still for too long is given up, and what it
counted for its transaction is gone."""


def with_clock(ahead: int) -> list[str]:
    """The command of a worker whose clock is so many seconds ahead."""
    return [*COMMAND[:3], "-c", WRONG_CLOCK.format(ahead), "run"]


def prediction(rng: random.Random, number: int) -> tuple[bytes, bytes, str]:
    """Key and message of an over-confident classifier's prediction, and the true class."""
    truth = rng.choices(range(4), [5, 3, 1, 1])[0]
    scores = [rng.expovariate(1.0) ** 3 + (2.0 if i == truth else 0.01) for i in range(4)]
    probs = [score / sum(scores) for score in scores]
    value = {"id": number, "probs": probs, "note": "ü" * rng.randrange(3)}
    return b"k%d" % number, json.dumps(value).encode(), CLASSES[truth]


def label(truth: str) -> bytes:
    return json.dumps({"label": truth}).encode()


def fill(app: App, n: int, seed: int = 0, *, delay: int = 40) -> None:
    """n predictions, a millisecond apart, and a label for each, so many milliseconds later."""
    rng = random.Random(seed)
    predictions, labels = [], []
    for i in range(n):
        key, value, truth = prediction(rng, i)
        partition, stamp = i % app.partitions, STAMP + seed * 1_000_000 + i
        predictions.append((app.given["input"], partition, key, value, [("h", b"1")], stamp))
        labels.append((app.given["labels"], partition, key, label(truth), [], stamp + delay))
    produce(app.servers, predictions, labels if app.given["labels"] else [])


def write_config(app: App, directory: Path, instance: str = "0") -> str:
    """The settings of one instance in a file; its path."""
    path = directory / f"{instance}.toml"
    given = {**app.given, "instance": instance}
    lines = [f"{k} = {json.dumps(v)}\n" for k, v in given.items() if k != "client" and v]
    lines += ["[client]\n", *(f"{k} = {json.dumps(v)}\n" for k, v in given["client"].items())]
    path.write_text("".join(lines))
    return str(path)


class App:
    """The topics of one application, and workers over them."""

    opened: ClassVar[list[App]] = []

    def __init__(
        self,
        servers: str,
        *,
        partitions: int = 2,
        labels: bool = True,
        configs: dict[str, Any] | None = None,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        self.servers, self.partitions = servers, partitions
        self.id = name or unique("app")
        self.checked = Checked()
        self._asking: tuple[Any, Any] | None = None
        self.opened.append(self)
        self.given: dict[str, Any] = {
            "bootstrap_servers": servers.split(","),
            "application_id": self.id,
            "input": f"{self.id}-in",
            "output": f"{self.id}-out",
            "labels": f"{self.id}-labels" if labels else None,
            "classes": CLASSES,
            "connect_seconds": PATIENCE,
            **settings,
        }
        self.given["client"] = QUICK | settings.get("client", {})
        keep = {"retention.ms": "-1"}
        topics = {f"{self.id}-{kind}": keep for kind in ("in", "out", "dead-letters")}
        topics[f"{self.id}-state"] = {"cleanup.policy": "compact"}
        topics[f"{self.id}-learned"] = keep
        if settings.get("learn") != "apart":
            topics[f"{self.id}-learned"] = keep | {"partitions": 1}
        if labels:
            topics[f"{self.id}-labels"] = keep
        if settings.get("ask"):
            topics[f"{self.id}-label-requests"] = keep
        for kind, more in (configs or {}).items():
            topics[f"{self.id}-{kind}"] = topics[f"{self.id}-{kind}"] | more
        create(servers, topics, partitions)

    def settings(self, instance: str = "0", **changes: Any) -> Settings:
        return Settings(**{**self.given, "instance": instance, **changes})

    def worker(self, instance: str = "0", **changes: Any) -> Running:
        """One in a thread of this process."""
        return Running(Worker(self.settings(instance, **changes)))

    def process(
        self, directory: Path, instance: str = "0", *, command: Sequence[str] = COMMAND
    ) -> subprocess.Popen[bytes]:
        """One in a process of its own; its log is ``directory/instance.log``."""
        config = write_config(self, directory, instance)
        with open(directory / f"{instance}.log", "ab") as log:
            return subprocess.Popen(
                [*command, config],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def outputs(self, partition: int) -> list[Any]:
        return read(self.servers, self.given["output"], partition)

    @property
    def kinds(self) -> list[str]:
        """Its topics with as many partitions as the input, which is the last."""
        kinds = ["out", "dead-letters", "state"]
        kinds += ["learned"] if self.given.get("learn") == "apart" else []
        kinds += ["label-requests"] if self.given.get("ask") else []
        kinds += ["labels"] if self.given["labels"] else []
        return [*kinds, "in"]

    def lag(self) -> int:
        """How many records of input and labels the group has not committed, all at first."""
        if self._asking is None:
            self._asking = (
                KafkaAdminClient(bootstrap_servers=self.servers),
                KafkaConsumer(bootstrap_servers=self.servers),
            )
        admin, consumer = self._asking
        topics = [t for t in (self.given["input"], self.given["labels"]) if t]
        tps = [TopicPartition(topic, p) for topic in topics for p in range(self.partitions)]
        try:
            found = admin.list_group_offsets([self.id])[self.id]
            # Asked for several, it leaves out those whose leader it does not know yet.
            ends = {tp: consumer.end_offsets([tp])[tp] for tp in tps}
        except (KafkaTimeoutError, RetriableError):
            # No coordinator is known yet; or they go on asking one, or a leader, that is none.
            self.close()
            return len(tps)
        return sum(ends[tp] - (found[tp].offset if tp in found else -1) for tp in tps)

    def close(self) -> None:
        asking, self._asking = self._asking, None
        for client in asking or ():
            client.close()

    def verify(
        self, settings: Settings | None = None, begun: dict[int, bytes] | None = None
    ) -> int:
        """Check all that the topics hold, from them alone, bit by bit; see `offline`.

        Returns the number of outputs and dead letters compared.
        """
        self.checked = verify(settings or self.settings(), self.partitions, begun or {})
        return self.checked.compared


class Running:
    """A worker in a thread, which ends with its test, also with one that failed."""

    started: ClassVar[list[Running]] = []

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.started.append(self)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def replica(self, number: int = 0) -> Replica:
        """Its replica of the learned log, once it has one: it may join when all is done."""

        def held() -> Replica | None:
            if self.error is not None:
                raise self.error
            found = self.worker.learned_log.replicas.get(number)
            return found if found and found.started else None

        return wait("a replica of the learned log", held)

    def stop(self) -> None:
        """Stop in order; raises what the worker raised."""
        self.worker.stop()
        self.join()

    @classmethod
    def end_all(cls) -> None:
        for one in cls.started:
            one.worker.stop()
        while cls.started:
            cls.started.pop().thread.join(PATIENCE)

    def join(self, seconds: float = PATIENCE) -> None:
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "the worker does not stop"
        if self.error is not None:
            raise self.error


def caught_up(app: App, *running: Running) -> None:
    """Wait until all that was sent is committed, or a worker ended."""
    wait("all committed", lambda: any(r.error for r in running) or app.lag() == 0)


def run_once(app: App, *, learned: int = 0, **changes: Any) -> Worker:
    """A worker until all that was sent is committed and learned, so many labels if they are given.

    What it wrote to the log comes back later: only then is it in the shared record it ends with.
    """
    running = app.worker(**changes)
    caught_up(app, running)
    if learned:
        running.replica()
    log = running.worker.learned_log
    numbers = list(log.replicas)
    until_closed(app.servers, log.topic, 1 + max(numbers, default=-1))
    for number in numbers:
        entries = read(app.servers, log.topic, number)

        def folded(number: int = number, last: int = entries[-1].offset if entries else -1) -> bool:
            replica = running.replica(number)
            return replica.offset > last and learned in (0, replica.corrector.n_labels)

        wait("learned", folded)
    running.stop()
    return running.worker


def scores(app: App, truth: Callable[[dict[str, Any]], str]) -> dict[str, float]:
    """Hits and log loss, before and after, of what lies in the output topic."""
    found = {"n": 0, "hits before": 0, "hits after": 0, "loss before": 0.0, "loss after": 0.0}
    for partition in range(app.partitions):
        for record in app.outputs(partition):
            if record.value is None:
                continue
            message = json.loads(record.value)
            true = CLASSES.index(truth(message))
            found["n"] += 1
            for stage, field in (("before", "probs_raw"), ("after", "probs")):
                row = np.array(message[field])
                found[f"hits {stage}"] += int(row.argmax() == true)
                found[f"loss {stage}"] -= np.log(max(row[true] / row.sum(), 1e-6))
    return found
