"""HeldRecords: records of a worker that were read and wait."""

from __future__ import annotations

import time
from typing import Any

from stream_can.kafka.state import Index

__all__ = ["HeldRecords"]

WAITING_SECONDS = 0.1
"""Seconds between two looks at records that wait under the same state."""


class HeldRecords:
    """Records that wait until their schema is known, or for the learner."""

    def __init__(self) -> None:
        self.by_partition: dict[int, list[Any]] = {}
        self.waiting: set[int] = set()
        """Partitions whose records wait for the learner."""
        self._index: Index | None = None
        """The index of the state under which these were last looked at."""
        self._looked = 0.0
        """When that was."""

    def clear(self) -> None:
        """Forget all records."""
        self.by_partition, self.waiting = {}, set()

    def take(self, partition: int) -> list[Any]:
        """Take the records of a partition."""
        return self.by_partition.pop(partition, [])

    def put_back(self, partition: int, records: list[Any]) -> None:
        """Put records back in front of those of their partition, to wait for the learner."""
        self.by_partition[partition] = records + self.by_partition.get(partition, [])
        self.waiting.add(partition)

    def due(self, index: Index) -> list[int]:
        """Partitions to look at again. Those that wait for the learner are looked at with a new
        state, and otherwise now and then: they may hold many records."""
        now = time.monotonic()
        if index is not self._index or now - self._looked > WAITING_SECONDS:
            self._index, self._looked = index, now
            return list(self.by_partition)
        return [partition for partition in self.by_partition if partition not in self.waiting]
