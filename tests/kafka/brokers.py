"""The brokers of a test session, by version, started when first asked for."""

from __future__ import annotations

from pathlib import Path

from tests.kafka.broker.broker import Broker


class Brokers:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, Broker] = {}

    def __getitem__(self, version: str) -> Broker:
        if version not in self.running:
            broker = Broker(version, self.directory / version)
            self.running[version] = broker
            broker.start()
        return self.running[version]

    def remove(self) -> None:
        for broker in self.running.values():
            broker.remove()
