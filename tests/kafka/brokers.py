"""The brokers of a test run: those that all its processes share, and those of one process alone."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

from tests.kafka.broker.broker import Broker, Served, remove


class Own:
    """Of this process, by version, started when first asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, Broker] = {}

    def __getitem__(self, version: str) -> Broker:
        if version not in self.running:
            broker = Broker(version, self.directory / version)
            broker.start()
            self.running[version] = broker
        return self.running[version]

    def remove(self) -> None:
        while self.running:
            self.running.popitem()[1].remove()


class Shared:
    """Of all processes of the run, by version.

    The first process that asks for one starts it, the others wait and are told where it is.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started = Own(directory)
        """By this process; they live on when it ends."""

    def __getitem__(self, version: str) -> Served:
        self.directory.mkdir(exist_ok=True)
        told = self.directory / f"{version}.json"
        with open(self.directory / f"{version}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not told.exists():
                told.write_text(json.dumps(self.started[version].listeners))
        return Served(version, self.directory / version, json.loads(told.read_text()))


def remove_all(directory: Path) -> None:
    """End all brokers of a run: what the process that began it does last, interrupted or not."""
    for pid in directory.glob("*/*/pid"):
        remove(pid.parent)
    shutil.rmtree(directory, ignore_errors=True)
