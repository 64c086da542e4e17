"""OpenWork: what a worker has done and not committed, and what it sends to the learner of that."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from stream_can.kafka.client.transaction import Transaction
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.deferred import pieces_of
from stream_can.kafka.headers import DEFERRED_HEADER, NEXT_HEADER, headers_by
from stream_can.learner.sent import NO_ROWS, SentBatch
from stream_can.messages.records import Source

__all__ = ["OpenWork"]

HEADER_ROOM, FEWEST_HEADER_BYTES = 1024, 250
"""Bytes that are left for headers and the batch around a record, and those that they take: what is
larger than that alone is tried all the same."""


class OpenWork:
    """The open transaction of a worker.

    Parameters
    ----------
    transaction
        The transaction.
    topic
        Topic of sent batches.
    seconds
        Seconds until a commit is due after the first work.
    """

    def __init__(self, transaction: Transaction, topic: str, seconds: float) -> None:
        self._transaction, self._topic, self._seconds = transaction, topic, seconds
        self.partitions: set[int] = set()
        """Partitions with uncommitted work."""
        self.handled = self.written = 0
        """Number of records, and bytes of the sent batches."""
        self.due = 0.0

    def clear(self) -> None:
        """Forget what was committed, or dropped."""
        self.partitions, self.handled, self.written = set(), 0, 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the next commit is due, where there is something to commit."""
        return max(0.0, self.due - time.monotonic())

    def is_due(self, most: int) -> bool:
        """Whether to commit: it is time, or there are so many records."""
        return bool(self.partitions) and (not self.seconds_left or self.handled >= most)

    @property
    def most_bytes(self) -> int:
        """Maximum size of what is sent, without its headers."""
        return self._transaction.max_bytes.get(self._topic, 1 << 20) - HEADER_ROOM

    def begin(self, partition: int) -> None:
        """Begin to work on a partition."""
        if not self.partitions:
            self.due = time.monotonic() + self._seconds
        if partition not in self.partitions:
            self._transaction.expect((self._topic, partition))
        self.partitions.add(partition)

    def send(
        self, partition: int, at: int, state: CurrentState, batch: SentBatch = NO_ROWS
    ) -> None:
        """Send a batch in records of accepted size; ``at`` is the next offset of the input."""
        headers = headers_by(state.number, state.index.mark)
        for data, n in batch.pieces(self.most_bytes):
            behind = at if n == len(batch) else int(batch.numbers[n])
            self._write(partition, data, [*headers, (NEXT_HEADER, b"%d" % behind)])

    def send_deferred(
        self, partition: int, records: Sequence[Any], state: CurrentState
    ) -> list[Source]:
        """Send records that the learner is to correct; return those that are too large."""
        too_large, end_before, limit = list[Source](), 0, self.most_bytes
        headers = headers_by(state.number, state.index.mark)
        for data, n in pieces_of(records, limit):
            handed, end_before = n - end_before, n
            if len(data) > limit + HEADER_ROOM - FEWEST_HEADER_BYTES:
                too_large.append(records[n - 1])
                continue
            behind = (NEXT_HEADER, b"%d" % (records[n - 1].offset + 1))
            deferred = (DEFERRED_HEADER, b"%d" % handed)
            self._write(partition, data, [*headers, behind, deferred])
        return too_large

    def _write(self, partition: int, data: bytes, headers: list[Any]) -> None:
        self._transaction.send(self._topic, partition, None, data, headers)
        self.written += len(data)
