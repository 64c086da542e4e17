"""Kill, freeze and add workers, kill and stop brokers, and the `faults`; then compare all bits.

    python -m tests.kafka.chaos --seconds 600 --seed 1 --version 4.4.0 --brokers 3

An idempotent producer writes predictions, labels and unreadable records all the while. Afterwards
the topics are judged from themselves alone: every output and every state made again, bit by bit;
see `judge`. A full disk needs the right to mount one, and is left out by
name where that is refused.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

from stream_can.kafka.client.guards import close, create_no_topics
from tests.kafka import faults, formats
from tests.kafka.broker.broker import USERS, VERSIONS, Broker, Cluster
from tests.kafka.broker.registry import Apicurio
from tests.kafka.faults import SmallDisk
from tests.kafka.recorder import Records
from tests.kafka.streams import (
    COMMAND,
    App,
    as_logits,
    label,
    labels_of,
    with_clock,
    with_weight,
)
from tests.kafka.users import allow, better, rights, sasl
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
BACKLOG = 5_000
LABEL_DELAY = 1.0
"""Seconds from a prediction to its label."""
FUTURE_SHARE = 1 / 250
"""Share of the predictions whose clock is five minutes ahead."""
FEWEST_TAKEOVERS = 3
"""With fewer, a run shows little of what one process leaves to the next: it is no test."""
STUCK_SECONDS = 75.0
"""Trap: kafka-python's producer can wait for a batch for ever, past its own delivery time-out."""


VERSIONS_OF_SCHEMAS = 100
PRIOR = ["a=1", "b=2", "c=6", "d=1"]
"""Other shares than those of the labels, which overrule them."""
SEGMENTS = ["carrier", "customer.country"]
SEGMENTS_MB = 0.01
"""About a hundred values: others are dropped all the while."""


def with_columns(rng: random.Random, value: bytes) -> bytes:
    """A prediction's message with values of the columns, some of which are none."""
    message = json.loads(value)
    message["carrier"] = rng.choice(["AA", "DL", "\u00fc", 7, 7.0, True, None, 1.5, [], {"a": 1}])
    if rng.random() < 0.9:
        message["customer"] = {"country": f"c{int(rng.paretovariate(0.5))}"}
    return json.dumps(message).encode()


def with_names(rng: random.Random, number: int, value: bytes) -> bytes:
    """A prediction's message of one of the models of its time."""
    name = f"m{number // 5000 + rng.randrange(5)}"
    names = {"model": {"name": name, "version": rng.choice("12")}}
    return json.dumps(json.loads(value) | names).encode()


class Avro:
    """The messages of the writer as Avro records, of ever newer schemas."""

    def __init__(self, app: App) -> None:
        url, s = app.given["schema_registry"], app.given
        self.label = formats.serializer("avro", url, s["labels"], formats.LABEL)
        self._writers = []
        for version in range(VERSIONS_OF_SCHEMAS):  # all now: the registry may be down later
            schema = json.loads(json.dumps(formats.FRAUD))
            if version % 2:
                schema["fields"][2]["type"]["fields"][1]["type"]["items"] = "float"
            for i in range(version):
                schema["fields"].append({"name": f"f{i}", "type": "string", "default": "x"})
            self._writers.append(formats.serializer("avro", url, s["input"], schema))
            empty = {f"f{i}": "" for i in range(version)}
            probs = {"probs": [1.0, 0.0, 0.0, 0.0], "note": ""}
            self._writers[-1](formats.fraud(0, probs, 0) | empty)
        self.label({"id": 0, "label": "a"})
        self.known = 0
        """How many of the versions have been written."""

    def prediction(self, rng: random.Random, number: int, value: bytes) -> bytes:
        """A prediction of one of the schemas of its time."""
        newest = min(number // 1500, len(self._writers) - 1)
        version = rng.choice([newest, newest, max(newest - 1, 0), rng.randrange(newest + 1)])
        self.known = max(self.known, version + 1)
        more = {f"f{i}": "y" * rng.randrange(3) for i in range(version)}
        stamp = int(time.time() * 1000)
        record = formats.fraud(number, json.loads(value), stamp) | more
        return self._writers[version](record)

    @staticmethod
    def unreadable(rng: random.Random, value: bytes) -> bytes:
        """What no worker can read."""
        return rng.choice([
            b"", b"{}", b"\0\0\0", b"\0\x7f\xff\xff" + rng.randbytes(8), value[:-3], value + b"x",
        ])  # fmt: skip


class Writer(threading.Thread):
    """Writes the input until told to stop, through every outage."""

    def __init__(self, app: App, rate: float, seed: int, avro: Avro | None = None) -> None:
        super().__init__(daemon=True)
        self.avro = avro
        self.app, self.rate, self.rng = app, rate, random.Random(seed)
        self.ended = threading.Event()
        self.open = 0
        self.moved = time.monotonic()
        self.at_once = 0
        """How many predictions to write without a pause."""
        self.skew = {"input": 0, "labels": 0}
        """Milliseconds by which the clocks of those who write them are ahead."""
        self._paused = threading.Event()
        self._resting = threading.Event()
        self.start()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is written meanwhile, and all that was is stored or given up."""
        self._paused.set()
        try:
            wait("the writer rests", lambda: self._resting.is_set() and not self.open)
            yield
        finally:
            self._paused.clear()

    def run(self) -> None:
        rng = self.rng
        producer = None
        due: collections.deque[tuple[float, int, bytes, bytes]] = collections.deque()
        for number in itertools.count():
            if self.ended.is_set():
                break
            while self._paused.is_set():
                self._resting.set()
                time.sleep(0.02)
            self._resting.clear()
            partition = rng.randrange(self.app.partitions)
            key, value, truth = self.app.predict(rng, number)
            if self.app.given.get("logits"):
                value = as_logits(value)
            if self.app.given.get("segments"):
                value = with_columns(rng, value)
            values = [value]
            if self.app.given.get("model"):
                values = [with_names(rng, number, value) for _ in range(rng.choice([1, 1, 2]))]
            labels, avro = [*labels_of(rng, truth), label("z")], self.avro
            if self.app.given.get("weight"):
                labels = [with_weight(rng, x) if rng.random() < 0.5 else x for x in labels]
            if avro is not None:
                values = [avro.prediction(rng, number, value)]
                labels = [avro.label({"id": number, "label": name}) for name in (truth, "z")]
            if rng.random() < 0.01:
                bad = rng.choice(UNREADABLE)
                values[0] = bad if avro is None else avro.unreadable(rng, values[0])
            to = rng.randrange(self.app.label_partitions)
            *right, wrong = labels
            for one in [*right, *([wrong] if rng.random() < 0.01 else [])]:
                due.append((time.monotonic() + LABEL_DELAY, to, key, one))
            try:
                if producer is None:
                    producer = KafkaProducer(
                        bootstrap_servers=self.app.servers, linger_ms=20,
                        delivery_timeout_ms=60_000, request_timeout_ms=10_000,
                        reconnect_backoff_max_ms=500, metadata_max_age_ms=1_000,
                    )  # fmt: skip
                    create_no_topics(producer)  # a fault deletes one
                for value in values:
                    self._send(producer, "input", partition, key, value)
                while due and due[0][0] < time.monotonic():
                    _, partition, key, value = due.popleft()
                    self._send(producer, "labels", partition, key, value)
            except (KafkaError, OSError, ValueError):  # or a partition not known yet
                time.sleep(0.2)
            if self.open and time.monotonic() - self.moved > STUCK_SECONDS:
                close(producer, 0)
                producer, self.open = None, 0
            if self.at_once:
                self.at_once -= 1
            else:
                time.sleep(rng.expovariate(self.rate))
        if producer is not None:
            with contextlib.suppress(KafkaError):
                producer.flush(STUCK_SECONDS)
            close(producer, 1)

    def _send(
        self, producer: KafkaProducer, kind: str, partition: int, key: bytes, value: bytes
    ) -> None:
        stamp = int(time.time() * 1000) + self.skew[kind]
        if kind == "input" and self.rng.random() < FUTURE_SHARE:
            stamp += 300_000
        topic = self.app.given[kind]
        future = producer.send(topic, value, key, partition=partition, timestamp_ms=stamp)
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
        rate: float = 300, segments: bool = False, lanes: bool = False,
        registry: Apicurio | None = None, sets: bool = False, several: bool = False,
        logits: bool = False, prior: bool = False,
    ) -> None:  # fmt: skip
        self.rng = random.Random(seed)
        self.brokers = broker.brokers if isinstance(broker, Cluster) else [broker]
        self.directory = directory
        columns: dict[str, Any] = (
            {"segments": SEGMENTS, "segments_mb": SEGMENTS_MB} if segments else {}
        ) | ({"model": "model.name", "version": "model.version"} if lanes else {})
        if sets:
            columns |= {"sets": 0.9, "sets_by": SEGMENTS[0] if segments else "class"}
        if several:
            columns |= {"rows": "multilabel"}
        elif registry is None:
            columns["weight"] = "weight"
        if logits:
            columns["logits"] = True
        if prior:
            columns["prior"] = PRIOR
        self.registry = registry
        if registry is not None:
            columns |= {"format": "avro", "schema_registry": registry.url, **formats.AT}
        self.app = App(
            broker.bootstrap_servers, partitions=partitions, client=CLIENT, label_partitions=3,
            **({"ask": 0.05} | columns),
        )  # fmt: skip
        self.plain = self.app.settings()
        """For the judge; the workers have only the rights that they need."""
        for right in [*rights(self.app, *"012"), *better(self.app)]:
            allow(self.app.servers, faults.USER, *right)
        self.app.given["bootstrap_servers"] = [broker.sasl_servers for broker in self.brokers]
        self.app.given["client"] = self.plain.client | sasl(faults.USER, USERS[faults.USER])
        self.disk: SmallDisk | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.seen: dict[str, int] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.script: list[Callable[[], None]] = []
        """What to do first; afterwards it is drawn."""
        self.behind = 0.0
        """Seconds from the last fault until everything written was committed."""
        self.records = Records(
            self.app.servers, [f"{self.app.id}-{kind}" for kind in ("in", "sent", "labels")]
        )
        """What was deleted and will be judged."""
        self.writer = Writer(self.app, rate, seed, None if registry is None else Avro(self.app))

    def run(self, seconds: float) -> int:
        """Cause trouble for so long, let the workers catch up, compare. Returns the records."""
        try:
            for name in ("0", "1"):
                self.begin(name)
            # Before that, topics that differ are a mistake, and refused.
            wait("the first commit", lambda: self.app.outputs(0))
            deadline = time.monotonic() + seconds
            while self.script or time.monotonic() < deadline:
                self.sleep(0.3, 2)
                mix = self.mix
                trouble = (
                    self.script.pop(0) if self.script
                    else self.rng.choices(list(mix), list(mix.values()))[0]
                )  # fmt: skip
                trouble()
                self.revive()
            last = time.monotonic()
            assert self.writer.is_alive()
            self.writer.ended.set()
            self.writer.join(PATIENCE)
            self.catch_up()
            self.behind = time.monotonic() - last
            for name, process in self.workers.items():
                self.wait_for(name)
                process.terminate()
            codes = [process.wait(PATIENCE) for process in self.workers.values()]
            assert codes == [0] * len(codes), f"exit codes {codes}"
            recorded = self.records.of()
            try:
                return self.app.verify(self.plain, recorded=recorded, **self.reads())
            except AssertionError:  # to judge again: the topics hold less
                (self.directory / "recorded.pickle").write_bytes(pickle.dumps(recorded))
                raise
        finally:
            self.app.close()
            self.records.stop()
            self.writer.ended.set()
            for process in self.workers.values():
                process.kill()
                process.wait()

    @property
    def takeovers(self) -> int:
        """How often a process went on with what another had learned."""
        logs = [log.read_text() for log in self.directory.glob("*.log")]
        return sum(text.count("learning from state") for text in logs) - 1

    def reads(self) -> dict[str, Any]:
        """How the judge reads messages that are not JSON."""
        if self.registry is None:
            return {}
        return formats.reading(self.app, "avro")

    @property
    def mix(self) -> dict[Callable[[], None], float]:
        """What may happen, and how often beside each other."""
        many = len(self.brokers) > 1
        return {
            self.kill_worker: 5, self.freeze_worker: 2, self.join_and_leave: 2,
            self.kill_broker: 2, self.stop_broker: 1, self.freeze_broker: 2 * many,
            self.kill_all_brokers: many, **self.around,
        }  # fmt: skip

    @property
    def around(self) -> dict[Callable[[], None], float]:
        """What befalls an application beside its processes."""
        registry: dict[Callable[[], None], float] = (
            {self.stop_registry: 2} if self.registry is not None else {}
        )
        found: dict[Callable[[], None], float] = registry | {
            self.backlog: 2,
            partial(faults.add_partition, self): 1,
            partial(faults.revoke_right, self): 1,
            partial(faults.wrong_clocks, self): 1,
            partial(faults.foreign_records, self): 1,
            partial(faults.delete_dead_letters, self): 0.5,
            partial(faults.delete_learned, self): 2,
            partial(faults.delete_unlearned, self): 0.5,
            partial(faults.delete_uncorrected, self): 0.5,
            partial(faults.make_labels_again, self): 0.5,
            partial(faults.make_input_again, self): 0.5,
        }
        return found | ({partial(self.disk.fill, self): 1} if self.disk else {})

    def begin(
        self, name: str, ahead: int = 0, *, learn: bool = True, more: Sequence[str] = ()
    ) -> None:
        """Start a worker, with a clock that is so many seconds ahead, and more options."""
        log = self.directory / f"{name}.log"
        self.seen[name] = log.stat().st_size if log.exists() else 0
        command = with_clock(ahead) if ahead else COMMAND
        command = [*command, *more, *([] if learn else ["--no-learn"])]
        self.workers[name] = self.app.process(self.directory, name, command=command)

    def said(self, name: str) -> str:
        """What a worker has logged since it was started."""
        return (self.directory / f"{name}.log").read_text()[self.seen[name] :]

    def says(self, names: Sequence[str], text: str) -> None:
        """Wait until one of these workers, which learns, has said this; all others go on."""
        wait(text, lambda: any(text in self.said(name) for name in names))

    def refused(self, names: Sequence[str], text: str) -> None:
        """Wait until each of these workers has ended with 3 and said what matches this."""
        for name in names:
            process, log = self.workers[name], self.directory / f"{name}.log"
            wait(f"{log}: {text}", lambda process=process: process.poll() is not None)
            said = log.read_text()[self.seen[name] :]
            assert process.returncode == 3, f"{log}: {process.returncode}: {said[-1500:]}"
            assert re.search(text, said), f"{log}: not {text!r}: {said[-1500:]}"

    def wait_for(self, name: str) -> None:
        """Until a worker has joined: before, SIGTERM finds nobody who handles it."""
        log = self.directory / f"{name}.log"
        wait(f"{log}: joined", lambda: b"by state" in log.read_bytes()[self.seen[name] :])

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
        process = self.workers[self.rng.choice("01")]
        process.kill()
        process.wait(PATIENCE)  # or nobody sees yet that it has ended
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
        self.wait_for("2")
        self.sleep(0.5, 2)
        self.leave("2")

    def leave(self, name: str) -> None:
        """A worker stops in order, and is not started again."""
        process = self.workers.pop(name)
        process.terminate()
        code = process.wait(PATIENCE)
        assert code == 0, f"{self.directory}/{name}.log: left with {code}"

    def backlog(self) -> None:
        """More at once than workers correct themselves; one of them may be killed over it."""
        self.counts["backlog"] += 1
        self.writer.at_once = BACKLOG
        self.sleep(0.2, 3)
        if self.rng.random() < 0.5:
            self.kill_worker()
            self.revive()

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

    def stop_registry(self) -> None:
        """Meanwhile schemas come that no worker knows."""
        self.counts["registry kill -9"] += 1
        assert self.registry is not None
        self.registry.kill()
        if self.rng.random() < 0.5:
            self.kill_worker()
            self.revive()
        self.sleep(1, 12)
        self.registry.start()

    def kill_all_brokers(self) -> None:
        self.counts["all brokers kill -9"] += 1
        for broker in self.brokers:
            broker.kill()
        self.sleep(0.2, 3)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Broker.start, self.brokers))

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
    parser.add_argument("--segments", action="store_true", help="predictions have columns")
    parser.add_argument("--lanes", action="store_true", help="predictions are of many models")
    parser.add_argument("--sets", action="store_true", help="outputs have prediction sets")
    parser.add_argument("--several", action="store_true", help="rows have several labels")
    parser.add_argument("--logits", action="store_true", help="predictions are logits")
    parser.add_argument("--prior", action="store_true", help="the class mix is said to be known")
    parser.add_argument("--avro", action="store_true", help="records of Avro, with a registry")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    make = Cluster if options.brokers > 1 else Broker
    broker = make(options.version, directory / "broker")
    disk, registry = None, None
    try:
        if options.avro:
            registry = Apicurio(directory / "registry")
            registry.start()
        first = broker.brokers[0] if isinstance(broker, Cluster) else broker
        try:
            disk = SmallDisk(first)
        except OSError as error:
            print(f"left out, a full disk: {error}", file=sys.stderr)
        broker.start()
        chaos = Chaos(
            broker, directory, options.seed, segments=options.segments,
            lanes=options.lanes, registry=registry, sets=options.sets, several=options.several,
            logits=options.logits, prior=options.prior,
        )  # fmt: skip
        chaos.disk = disk
        chaos.script = [chaos.kill_worker, *chaos.around]
        compared = chaos.run(options.seconds)
        takeovers = chaos.takeovers
        assert takeovers >= FEWEST_TAKEOVERS, f"no test: {takeovers} takeovers of what was learned"
        assert chaos.app.checked.deferred, "no test: nothing was handed over"
    except BaseException:
        options.keep = True
        print(f"logs and data are in {directory}", file=sys.stderr)
        raise
    finally:
        broker.kill()
        formats.close()
        if registry is not None:
            registry.kill()
            if not options.keep:
                registry.remove()
        if disk is not None:
            disk.remove()
        if not options.keep:
            broker.remove()
            shutil.rmtree(directory / "broker", ignore_errors=True)
            for left in sorted(directory.glob("*"), reverse=True):
                left.unlink()
            directory.rmdir()
    done = ", ".join(f"{n} x {what}" for what, n in sorted(chaos.counts.items()) if n)
    checked = chaos.app.checked
    columns = " with columns" if options.segments else " with lanes" if options.lanes else ""
    columns += " in Avro" if options.avro else " with sets" if options.sets else ""
    columns += " with multilabel rows" if options.several else ""
    columns += " of logits" if options.logits else ""
    columns += " with a known class mix" if options.prior else ""
    found = checked.labels["learned"] + checked.labels["learned late"]
    share = found / max(1, found + checked.labels["given up"])
    lost = ", ".join(f"{n} {what}" for what, n in sorted(checked.lost.items()) if n) or "nothing"
    print(
        f"{options.version} seed {options.seed}{columns}: exact, {compared} records,"
        f" {len(checked.deferred)} of them corrected by the learner,"
        f" {checked.states} states, {takeovers} takeovers, labels: {dict(checked.labels)},"
        f" {share:.1%} found their prediction; deleted before it was read: {lost}; {done};"
        f" caught up {chaos.behind:.0f} s after the last"
    )


if __name__ == "__main__":
    main()
