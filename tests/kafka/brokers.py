"""The servers of a test run: those that all its processes share, and those of one process alone.

Brokers by their version, and the schema registry.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

from tests.kafka.broker.broker import Broker, Served, Server, remove
from tests.kafka.broker.registry import Apicurio

REGISTRY = "registry"


class Own:
    """Of this process, by name, started when first asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, Server] = {}

    def __getitem__(self, name: str) -> Server:
        if name not in self.running:
            at = self.directory / name
            server = Apicurio(at) if name == REGISTRY else Broker(name, at)
            server.start()
            self.running[name] = server
        return self.running[name]

    def remove(self) -> None:
        while self.running:
            self.running.popitem()[1].remove()


class Shared:
    """Of all processes of the run, by name.

    The first process that asks for one starts it, the others wait and are told where it is.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started = Own(directory)
        """By this process; they live on when it ends."""

    def __getitem__(self, name: str) -> Served:
        self.directory.mkdir(exist_ok=True)
        told = self.directory / f"{name}.json"
        with open(self.directory / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not told.exists():
                told.write_text(json.dumps(self.started[name].listeners))
        return Served(name, self.directory / name, json.loads(told.read_text()))


def remove_all(directory: Path) -> None:
    """End all servers of a run: what the process that began it does last, interrupted or not."""
    for pid in directory.glob("*/*/pid"):
        remove(pid.parent)
    shutil.rmtree(directory, ignore_errors=True)
