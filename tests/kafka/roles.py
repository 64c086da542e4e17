"""Workers and learners over the topics of an application, in threads of a test."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from stream_can.app.health import Health
from stream_can.app.metrics import Metrics
from stream_can.kafka import Settings
from stream_can.kafka.correcting import Work
from stream_can.kafka.learner import Learns
from stream_can.kafka.loop import Loop
from stream_can.kafka.start import TaskStart
from tests.kafka.judge import Verdict, judge, states_of
from tests.kafka.streams import CLASSES, QUICK, STAMP, label, prediction
from tests.kafka.topics import create, produce, read, unique
from tests.programs import PATIENCE, wait


class RoleThread:
    """A role in a thread, which ends with its test, also with one that failed."""

    started: ClassVar[list[RoleThread]] = []

    def __init__(self, role: Any, settings: Settings, *, takes_turns: bool = False) -> None:
        self.role = role
        self.loop = Loop(role, settings, Health(120), takes_turns=takes_turns)
        self.started.append(self)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """Stop in order; raises what it raised."""
        self.loop.stop()
        self.join()

    def join(self) -> None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "it does not stop"
        if self.error is not None:
            raise self.error

    @classmethod
    def end_all(cls) -> None:
        for one in cls.started:
            one.loop.stop()
        while cls.started:
            cls.started.pop().thread.join(PATIENCE)


class Application:
    """Topics of an application, and those that work on them."""

    def __init__(
        self, servers: str, *, partitions: int = 2, label_partitions: int = 3, **settings: Any
    ) -> None:
        self.servers, self.partitions, self.id = servers, partitions, unique("app")
        self.label_partitions = label_partitions
        self.given: dict[str, Any] = {
            "bootstrap_servers": servers.split(","),
            "application_id": self.id,
            "input": f"{self.id}-in",
            "output": f"{self.id}-out",
            "labels": f"{self.id}-labels",
            "classes": CLASSES,
            "connect_seconds": PATIENCE,
            "create_topics": True,
            **settings,
        }
        self.given["client"] = QUICK | settings.get("client", {})
        keep = {"retention.ms": "-1"}
        create(
            servers,
            {
                **{
                    f"{self.id}-{kind}": keep | {"partitions": partitions}
                    for kind in ("in", "out", "dead-letters")
                },
                f"{self.id}-labels": keep | {"partitions": label_partitions},
            },
        )

    def settings(self, instance: str = "0", **changes: Any) -> Settings:
        return Settings(**{**self.given, "instance": instance, **changes})

    def worker(self, instance: str = "0", **changes: Any) -> RoleThread:
        settings = self.settings(instance, **changes)
        role = Work(settings, TaskStart(settings), Metrics(), Health(120))
        return RoleThread(role, settings)

    def learner(self, instance: str = "0", **changes: Any) -> RoleThread:
        settings = self.settings(instance, **changes)
        role = Learns(settings, TaskStart(settings), Metrics())
        return RoleThread(role, settings, takes_turns=True)

    def process(
        self, directory: Path, instance: str = "0", *, command: str = "run", **changes: Any
    ) -> subprocess.Popen[bytes]:
        """One in a process of its own; its log is ``directory/instance.log``."""
        path = directory / f"{instance}.toml"
        given = {**self.given, "learn": True, "instance": instance, **changes}
        lines = [f"{k} = {json.dumps(v)}\n" for k, v in given.items() if k != "client"]
        lines += ["[client]\n", *(f"{k} = {json.dumps(v)}\n" for k, v in given["client"].items())]
        path.write_text("".join(lines))
        with open(directory / f"{instance}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "stream_can", command, str(path)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def fill(
        self,
        n: int,
        seed: int = 0,
        *,
        delay: int = 40,
        first: int = 0,
        more: Callable[[random.Random, dict[str, Any]], None] | None = None,
        bad: bool = False,
    ) -> None:
        """n predictions, a millisecond apart, and a label for each, so many milliseconds later; the
        labels lie anywhere.

        Parameters
        ----------
        more
            Adds fields to the message of a prediction.
        bad
            Whether there are records that cannot be read, tombstones, labels of nothing, and labels
            that come again.
        """
        rng, predictions, labels = random.Random(seed), [], []
        given = self.given
        for i in range(first, first + n):
            key, value, truth = prediction(rng, i)
            stamp, p = STAMP + i, i % self.partitions
            says = json.loads(value)
            if more is not None:
                more(rng, says)
                value = json.dumps(says).encode()
            predictions.append((given["input"], p, key, value, [("h", b"1")], stamp))
            for _ in range(1 + (bad and rng.random() < 0.1)):
                labels.append(
                    (given["labels"], rng.randrange(self.label_partitions), key, label(truth), [],
                     stamp + delay)
                )  # fmt: skip
            if bad and rng.random() < 0.1:
                junk = rng.choice([None, b"", b"{", b'{"probs":[NaN,1]}', b'{"probs":[1,2,3,4]}'])
                predictions.append((given["input"], p, b"bad%d" % i, junk, [], stamp))
            if bad and rng.random() < 0.1:
                junk = rng.choice([None, b"", b"{", b"{}", label("no class"), label("a")])
                to = rng.randrange(self.label_partitions)
                labels.append((given["labels"], to, b"none%d" % i, junk, [], stamp))
        produce(self.servers, predictions, labels)

    def records(self, kind: str, partition: int) -> list[Any]:
        """What a topic of the application holds."""
        return read(self.servers, f"{self.id}-{kind}", partition)

    def outputs(self) -> list[dict[str, Any]]:
        found = [one for p in range(self.partitions) for one in self.records("out", p)]
        return [json.loads(one.value) for one in found if one.value is not None]

    def positions(self) -> tuple[dict[int, int], dict[int, int]]:
        """The next offsets of sent batches and labels, by the newest state."""
        states = states_of(self.servers, f"{self.id}-state")
        return (states[-1].memory.sent, states[-1].memory.labels) if states else ({}, {})

    def wait_until_learned(self, *threads: RoleThread, n: int) -> None:
        """Wait until n inputs are answered, and all that was sent and labelled is in a state."""

        def learned() -> bool:
            for one in threads:
                if one.error is not None:
                    raise one.error
            if sum(len(self.records(kind, p)) for kind in ("out", "dead-letters")
                   for p in range(self.partitions)) < n:  # fmt: skip
                return False
            sent, labels = self.positions()
            return all(
                found.get(p, 0) > records[-1].offset
                for kind, found, most in (
                    ("sent", sent, self.partitions),
                    ("labels", labels, self.label_partitions),
                )
                for p in range(most)
                if (records := self.records(kind, p))
            )

        wait("all learned", learned)

    def judge(self, **options: Any) -> Verdict:
        """What the topics hold; see `tests.kafka.judge`."""
        return judge(self.servers, self.settings(), **options)

    def wait_for_outputs(self, n: int) -> None:
        wait(f"{n} outputs", lambda: len(self.outputs()) >= n)
