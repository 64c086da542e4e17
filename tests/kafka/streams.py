"""A stream of predictions and late labels, a worker over it, and what its output must be."""

from __future__ import annotations

import bisect
import json
import math
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaTimeoutError, RetriableError
from kafka.protocol.consumer.offsets import IsolationLevel

from stream_can import Corrector, Learner
from stream_can.kafka import Settings, Worker
from stream_can.kafka.client.guards import ClientError, create_no_topics
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.stored import StoredState, newest_state
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner import LateLabel
from tests.kafka.judge import Verdict, judge
from tests.kafka.topics import create, produce, read, unique
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


def scores_of_labels(rng: random.Random, number: int) -> tuple[bytes, bytes, list[str]]:
    """Key and message of an over-confident prediction of multilabel rows, and the true ones."""
    shares = zip(CLASSES, (0.5, 0.3, 0.1, 0.02), strict=True)
    truth = [name for name, share in shares if rng.random() < share]
    sure = [rng.betavariate(1, 6) for _ in CLASSES]
    scores = [1 - p if name in truth else p for name, p in zip(CLASSES, sure, strict=True)]
    value = {"id": number, "scores": scores, "note": "\u00fc" * rng.randrange(3)}
    return b"k%d" % number, json.dumps(value).encode(), truth


def label(truth: str | list[str]) -> bytes:
    return json.dumps({"label" if isinstance(truth, str) else "labels": truth}).encode()


def labels_of(rng: random.Random, truth: str | list[str]) -> list[bytes]:
    """The messages of a label; of several some say a part, in any order, and some twice."""
    if isinstance(truth, str):
        return [label(truth)]
    says = {name: name in truth for name in rng.sample(CLASSES, rng.randint(1, 4))}
    parts = [json.dumps({"labels": says}).encode(), label(truth)]
    return rng.sample(parts, rng.randint(1, 2))


def with_weight(rng: random.Random, value: bytes) -> bytes:
    """The message of a label with its weight; some are none."""
    weight = 0 if rng.random() < 0.02 else rng.uniform(0.01, 20)
    return json.dumps(json.loads(value) | {"weight": weight}).encode()


def as_logits(value: bytes) -> bytes:
    """The message of a prediction, with logits."""
    says = json.loads(value)
    return json.dumps(says | {"probs": [math.log(p) + 7 for p in says["probs"]]}).encode()


def fill(
    app: App,
    n: int,
    seed: int = 0,
    *,
    delay: int = 40,
    first: int = 0,
    more: Callable[[random.Random, dict[str, Any]], None] | None = None,
    bad: bool = False,
) -> None:
    """n predictions, a millisecond apart, and a label for each, so many milliseconds later, which
    lies in any partition.

    Parameters
    ----------
    first
        The number of the first, which its key has.
    more
        Adds fields to the message of a prediction.
    bad
        Whether there are records that cannot be read, tombstones, labels of nothing, and labels
        that come again.
    """
    rng, predictions, labels = random.Random(seed), [], []
    given = app.given
    for i in range(first, first + n):
        key, value, truth = app.predict(rng, i)
        stamp, p = STAMP + seed * 1_000_000 + i, i % app.partitions
        if given.get("logits"):
            value = as_logits(value)
        if more is not None:
            says = json.loads(value)
            more(rng, says)
            value = json.dumps(says).encode()
        predictions.append((given["input"], p, key, value, [("h", b"1")], stamp))
        for _ in range(1 + (bad and rng.random() < 0.1)):
            to = i * 7 % app.label_partitions
            for one in labels_of(rng, truth):
                if given.get("weight") and rng.random() < 0.5:
                    one = with_weight(rng, one)
                labels.append((given["labels"], to, key, one, [], stamp + delay))
        if bad and rng.random() < 0.1:
            junk = rng.choice([None, b"", b"{", b'{"probs":[NaN,1]}', b'{"probs":[1,2,3,4e6]}'])
            predictions.append((given["input"], p, b"bad%d" % i, junk, [], stamp))
        if bad and rng.random() < 0.1:
            several = isinstance(truth, list)
            no, lone = (
                label(["no class"] if several else "no class"),
                label(["a"] if several else "a"),
            )
            junk = rng.choice([None, b"", b"{", b"{}", no, lone])
            to = rng.randrange(app.label_partitions)
            labels.append((given["labels"], to, b"none%d" % i, junk, [], stamp))
    produce(app.servers, predictions, labels if given["labels"] else [])


def more(rng: random.Random, says: dict[str, Any]) -> None:
    says["model"] = rng.choice("mn" if says["id"] < 400 else "no")
    says["version"] = "1" if says["id"] < 400 else rng.choice("12")
    says["carrier"] = rng.choice(["AA", "DL", 7, None, 1.5, True])


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
        label_partitions: int | None = None,
        configs: dict[str, Any] | None = None,
        name: str | None = None,
        served: bool = False,
        **settings: Any,
    ) -> None:
        """``served``: servers alone correct, there is no input."""
        self.servers, self.partitions = servers, partitions
        self.label_partitions = label_partitions or partitions
        self.id = name or unique("app")
        self.checked = Verdict()
        several = settings.get("rows") == "multilabel"
        self.predict: Any = scores_of_labels if several else prediction
        self._asking: tuple[Any, Any, Any] | None = None
        self.opened.append(self)
        self.given: dict[str, Any] = {
            "bootstrap_servers": servers.split(","),
            "application_id": self.id,
            "input": "" if served else f"{self.id}-in",
            "output": "" if served else f"{self.id}-out",
            "labels": f"{self.id}-labels" if labels else None,
            "classes": CLASSES,
            "connect_seconds": PATIENCE,
            **settings,
        }
        client = self.given["client"] = QUICK | settings.get("client", {})
        outs = client["session_timeout_ms"] + client.get("transaction_timeout_ms", 15_000)
        self.given.setdefault("label_wait", max(90, 2 * outs / 1000))
        keep = {"retention.ms": "-1"}
        appended = {"message.timestamp.type": "LogAppendTime"}
        topics: dict[str, dict[str, Any]] = {
            f"{self.id}-{kind}": keep
            for kind in (("dead-letters",) if served else ("in", "out", "dead-letters"))
        }
        topics[f"{self.id}-sent"] = keep | appended
        # States are kept, to be judged: none is compacted so soon.
        topics[f"{self.id}-state"] = {"cleanup.policy": "compact", "partitions": 2} | appended
        if labels:
            topics[f"{self.id}-labels"] = keep | {"partitions": self.label_partitions}
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

    def learner(self, instance: str = "0", **changes: Any) -> Running:
        """One that only learns."""
        return Running(Worker(self.settings(instance, **changes), corrects=False))

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
        kinds = ["out", "dead-letters", "sent"]
        kinds += ["label-requests"] if self.given.get("ask") else []
        return [*kinds, "in"]

    def lag(self, *, open_ones: bool = True) -> int:
        """How many records of input the group has not committed, and how many of labels and of what
        was sent are in no state; all at first.

        ``open_ones``: also count partitions with transactions that are still open.
        """
        if self._asking is None:
            options = Options([self.servers.split(",")[0]], {})
            self._asking = (
                KafkaAdminClient(bootstrap_servers=self.servers),
                KafkaConsumer(bootstrap_servers=self.servers, isolation_level="read_committed"),
                Readers(options),
            )
            create_no_topics(self._asking[1])
        admin, consumer, readers = self._asking
        topics = [f"{self.id}-sent", *filter(None, [self.given["labels"]])]
        try:
            counts = {
                topic: sorted(consumer.partitions_for_topic(topic) or ())
                for topic in (*filter(None, [self.given["input"]]), *topics)
            }
            found = admin.list_group_offsets([self.id])[self.id]
            ids = {one["name"]: str(one["topic_id"]) for one in admin.describe_topics(topics)}
            state = newest_state(readers, f"{self.id}-state")
            # Last: what came after that state is not in it.
            asked = dict.fromkeys(
                (TopicPartition(topic, p) for topic, numbers in counts.items() for p in numbers),
                OffsetSpec.LATEST,
            )
            committed, ends = (
                {tp: at.offset for tp, at in admin.list_partition_offsets(asked, level).items()}
                for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            )
        except (KafkaTimeoutError, RetriableError, ClientError):
            # No coordinator is known yet; or they go on asking one, or a leader, that is none.
            self.close()
            return 1 << 30
        if state is None:
            return 1 << 30
        lag = 0
        for tp, end in ends.items():
            if tp.topic == self.given["input"]:
                lag += end - (found[tp].offset if tp in found else 0)
                continue
            if open_ones and committed[tp] < end:
                # The group's offsets may be committed a moment before what was sent with them.
                lag += 1
                continue
            labels = state.memory.labels.get(tp.topic, {})
            at = state.memory.sent if tp.topic == topics[0] else labels
            # Made again, and not noticed; a state of a backfill knows no topic yet.
            if state.memory.topics.get(tp.topic, ids[tp.topic]) != ids[tp.topic]:
                lag += 1
                continue
            # Behind the last record there may be the end of a transaction.
            if at.get(tp.partition, 0) < committed[tp] and any(
                readers.read_span(tp.topic, tp.partition, at.get(tp.partition, 0), committed[tp])
            ):
                lag += 1
        return lag

    def close(self) -> None:
        asking, self._asking = self._asking, None
        for client in asking or ():
            client.close()

    def verify(self, settings: Settings | None = None, **options: Any) -> int:
        """Check all that the topics hold, from them alone, bit by bit; see `judge`.

        Returns the number of outputs and dead letters compared.
        """
        self.checked = judge(self.servers, settings or self.settings(), **options)
        return self.checked.outputs + self.checked.dead_letters


def tombstones(app: App) -> int:
    """How many of the input there are."""
    return sum(
        one.value is None
        for p in range(app.partitions)
        for one in read(app.servers, app.given["input"], p)
    )


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

    def learning(self) -> TopicLearner:
        """What it learns, once it does."""

        def found() -> TopicLearner | None:
            if self.error is not None:
                raise self.error
            return self.worker.learns and self.worker.learns.learning

        return wait("it learns", found)

    def n_labels(self) -> int:
        """Labels that it has learned; asked each time, since it begins with new correctors at the
        newest state after an error."""
        return sum(one.corrector.n_labels for one in self.learning().learner.live.values())

    def corrector(self) -> Corrector:
        """Of an application without models."""
        (one,) = self.learning().learner.live.values()
        found: Corrector = one.corrector  # or that of another kind
        return found

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


def state_of(app: App) -> StoredState | None:
    """The newest state that an application has written."""
    readers = Readers(Options([app.servers.split(",")[0]], {}))
    try:
        return newest_state(readers, f"{app.id}-state")
    finally:
        readers.close()


def correctors_of(app: App) -> dict[tuple[str | None, str | None], Corrector]:
    """Those of the newest state, by model and version."""
    state = state_of(app)
    assert state is not None
    return {name: Corrector.from_bytes(data) for name, data in state.lanes.items()}


def caught_up(app: App, *running: Running) -> None:
    """Wait until all that was sent is committed, or a worker ended."""
    wait("all committed", lambda: any(r.error for r in running) or app.lag() == 0)


def run_once(app: App, *, learned: int = 0, **changes: Any) -> Worker:
    """A worker until all that was sent is committed and learned, so many labels where given."""
    running = app.worker(**changes)
    caught_up(app, running)
    if learned:
        wait("learned", lambda: running.corrector().n_labels == learned)
    running.stop()
    return running.worker


def rows_of(records: Iterable[Any]) -> list[list[float]]:
    """The probabilities in messages."""
    return [json.loads(one.value or b"")["probs"] for one in records]


def rows_in_memory(app: App) -> list[list[float]]:
    """What one learner makes of the first partitions of input and labels, in the order of time."""
    records, labels = (read(app.servers, app.given[of], 0) for of in ("input", "labels"))
    times = [one.timestamp / 1000 for one in records]
    late = [
        LateLabel(
            one.key, json.loads(one.value or b"")["label"],
            due=bisect.bisect_right(times, one.timestamp / 1000), time=one.timestamp / 1000,
        )
        for one in labels
    ]  # fmt: skip
    learner, ids = Learner(Corrector(CLASSES)), [one.key for one in records]
    found: list[list[float]] = learner.play(ids, rows_of(records), late, times=times).rows.tolist()
    return found


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
