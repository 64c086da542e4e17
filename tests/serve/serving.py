"""A real ``stream-can serve``, and what its file says of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.learner import read_labels, read_sent
from stream_can.learner.learner import Learner
from stream_can.serve.store import Store
from tests.kafka.broker.broker import free_ports
from tests.programs import PATIENCE

CLASSES = ["cat", "dog", "eel"]
COMMAND = (sys.executable, "-m", "stream_can", "serve")


class Server:
    """The command in a process of its own, in a folder, until ``with`` ends."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, (self.port,) = folder, free_ports(1)
        self.state, self.log = folder / "state.sqlite", folder / "log"
        self.settings = {"classes": CLASSES, "http_port": self.port}
        if settings.get("bootstrap_servers") is None:
            self.settings["state"] = "state.sqlite"
        self.settings |= settings
        self.settings = {name: x for name, x in self.settings.items() if x is not None}
        self.config = folder / "app.toml"
        tables = {name: x for name, x in self.settings.items() if isinstance(x, dict)}
        lines = [f"{n} = {json.dumps(x)}" for n, x in self.settings.items() if n not in tables]
        for name, of in tables.items():
            for key, values in of.items() if name == "models" else [("", of)]:
                head = f"[{name}.{key}]" if key else f"[{name}]"
                lines += [head, *(f"{n} = {json.dumps(x)}" for n, x in values.items())]
        self.config.write_text("\n".join(lines) + "\n")
        self.process: subprocess.Popen[bytes] | None = None
        host = self.settings.get("http_host", "127.0.0.1")
        self.host = host
        url = f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"
        self.client = httpx.Client(base_url=url, timeout=PATIENCE)

    @property
    def resident(self) -> int:
        """Bytes of memory that it has."""
        assert self.process is not None
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def peak(self) -> int:
        """Bytes of memory that it had at most since this was asked before."""
        assert self.process is not None
        folder = Path(f"/proc/{self.process.pid}")
        (line,) = (x for x in (folder / "status").read_text().splitlines() if "VmHWM" in x)
        (folder / "clear_refs").write_text("5")
        return int(line.split()[1]) << 10

    def start(self, **options: Any) -> Self:
        """Start it, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, self.config], stderr=log, stdout=log, cwd=self.folder,
                env={**os.environ, **options.get("env", {})},
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection((self.host, self.port)).close()
                return self
            except OSError:
                time.sleep(0.002)
        raise AssertionError(self.log.read_text())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGKILL if error else signal.SIGTERM)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def run(self) -> tuple[int, str]:
        """Start it where it is to refuse: its exit code and what it says."""
        done = subprocess.run(
            [*COMMAND, self.config], capture_output=True, text=True, cwd=self.folder,
            timeout=PATIENCE,
        )  # fmt: skip
        return done.returncode, done.stderr

    def correct(self, *messages: Any) -> Any:
        """The answer to one message, or to several."""
        answer = self.client.post("/correct", json=messages[0] if len(messages) == 1 else messages)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def label(self, *messages: Any) -> list[str]:
        """What became of labels."""
        answer = self.client.post("/labels", json=messages)
        assert answer.status_code == 200, answer.text
        statuses: list[str] = answer.json()["statuses"]
        return statuses

    def post(self, path: str, body: bytes | str, **headers: str) -> tuple[int, Any]:
        """Status and JSON of the answer to a body."""
        answer = self.client.post(path, content=body, headers=headers)
        return answer.status_code, answer.json()


class Played(NamedTuple):
    """What a file's commits make, played with the bare Corrector."""

    corrector: Corrector
    sent: dict[str, list[float]]
    """Of each id the last of its predictions as it was answered."""
    labels: Counter[str]
    """Of each id how many labels were learned with its prediction."""
    alone: int
    """Labels that were learned without one."""


def commits_in(state: Path) -> dict[int, tuple[bytes, bytes]]:
    """The commits that a file has."""
    with contextlib.closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as db:
        return {n: both for n, *both in db.execute("SELECT number, head, sent FROM commits")}


def played(commits: dict[int, tuple[bytes, bytes]], corrector: Corrector) -> Played:
    """Every commit of a file from its beginning, in the fewest steps that can be read.

    Of text ids; each label counts once for its prediction, and once without.
    """
    rows = sorted(commits.items())
    assert [number for number, _ in rows] == [*range(1, len(rows) + 1)], "commits are gone"
    found = Played(corrector, {}, Counter(), 0)
    receipts: dict[str, tuple[Any, Any]] = {}
    known, alone = set[str](), dict[str, None]()
    for _, (content, sent_batch) in rows:
        head, _ = snapshot.decode(content)
        batch, labels = read_sent(sent_batch), read_labels(head["labels"])
        (lane,) = batch.versions or [None]
        at = 0
        for i in range(len(batch) + 1):
            while at < len(labels) and labels[at].due <= i:
                id, name = labels[at].id.decode(), labels[at].label
                at += 1
                if id in receipts and id not in known:
                    p, receipt = receipts[id]
                    corrector.learn_one(p, name, receipt=receipt)
                    found.labels[id] += 1
                    known.add(id)
                elif id not in receipts and id not in alone:
                    corrector.learn_one(None, name)
                    alone[id] = None
            if i < len(batch):
                assert lane is not None
                id, p = batch.ids[i].decode(), lane.raw[i]
                sent, receipt = corrector.process_one(p, receipt=True)
                assert sent.tolist() == lane.sent[i].tolist(), f"{id} was sent otherwise"
                found.sent[id] = sent.tolist()
                receipts[id] = p, receipt
                known.discard(id)
    return found._replace(alone=len(alone))


def learner_in(state: Path) -> Learner:
    """What a start would go on with."""
    store = Store(state)
    try:
        stored = store.load()
        assert stored is not None
        learner = Learner.from_state(stored.state, stored.batches)
        for events in stored.behind:
            learner.play_events(events)
    finally:
        store.close()
    return learner
