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
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx
import numpy as np

from stream_can.corrector import Corrector
from stream_can.stream import entry
from tests.kafka.broker.broker import free_ports
from tests.programs import PATIENCE

CLASSES = ["cat", "dog", "eel"]
COMMAND = (sys.executable, "-m", "stream_can", "serve")


class Server:
    """The command in a process of its own, in a folder, until ``with`` ends."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, (self.port,) = folder, free_ports(1)
        self.state, self.log = folder / "state.sqlite", folder / "log"
        self.settings = {"classes": CLASSES, "http_port": self.port, "state": "state.sqlite"}
        self.settings |= settings
        self.config = folder / "app.toml"
        tables = {name: x for name, x in self.settings.items() if isinstance(x, dict)}
        lines = [f"{n} = {json.dumps(x)}" for n, x in self.settings.items() if n not in tables]
        for name, of in tables.items():
            for key, values in of.items():
                lines += [f"[{name}.{key}]", *(f"{n} = {json.dumps(x)}" for n, x in values.items())]
        self.config.write_text("\n".join(lines) + "\n")
        self.process: subprocess.Popen[bytes] | None = None
        host = self.settings.get("http_host", "127.0.0.1")
        self.host = host
        url = f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"
        self.client = httpx.Client(base_url=url, timeout=PATIENCE)

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


class Row(NamedTuple):
    """A prediction that was answered."""

    probs: list[float]
    sent: list[float]
    learned: int


def folds(state: Path) -> dict[int, Corrector]:
    """The corrector below each offset of a file's log, folded from its first entry on."""
    with contextlib.closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as db:
        assert not db.execute("SELECT * FROM folded").fetchall(), "the log is no longer whole"
        rows = db.execute("SELECT offset, entry FROM learned ORDER BY offset").fetchall()
    found: dict[int, Corrector] = {}
    corrector = None
    for number, (offset, data) in enumerate(rows):
        assert offset == number
        corrector = entry.fold(corrector, entry.read(data))
        assert corrector is not None
        found[offset + 1] = Corrector.from_bytes(corrector.to_bytes())
    return found


def judge(rows: list[Row], found: dict[int, Corrector]) -> None:
    """Each prediction was corrected by what the log holds below its offset, bit by bit."""
    for row in rows:
        corrector = found[row.learned]
        made = corrector.correct_and_sum(np.array([row.probs]), corrector.new_sums())
        assert made[0].tolist() == row.sent
