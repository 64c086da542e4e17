"""What was read and waits for its turn: held back where it is too much, taken in order.

A side that is empty is asked for: only where nothing more of it can be read does the other go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stream_can.kafka.client.member import Member
from stream_can.kafka.order import Order

MOST_BYTES = 64 << 20
"""Of all records read ahead of what they wait for; past a partition's share it is not fetched."""
RECORD_BYTES = 300
"""What a record takes beside its key and value."""


def size(record: Any) -> int:
    """What a record takes in memory, about."""
    return RECORD_BYTES + len(record.key or b"") + len(record.value or b"")


class Waiting:
    """The records of every assigned partition that were read and not yet taken.

    Parameters
    ----------
    member
        Whose partitions they are.
    input, labels
        The topics; ``labels`` may be None.
    """

    def __init__(self, member: Member, input: str, labels: str | None) -> None:
        self._member = member
        self._sides = {"predictions": input, "labels": labels} if labels else {"predictions": input}
        self._labels = labels
        self._orders: dict[int, Order] = {}
        self._bytes: Counter[tuple[str, int]] = Counter()

    def assign(self, partitions: Iterable[int]) -> None:
        """These partitions are ours now; what waited before is forgotten."""
        self._orders = {partition: Order(self._labels) for partition in partitions}
        self._bytes.clear()

    def add(self, found: Mapping[tuple[str, int], list[Any]]) -> None:
        """What a poll brought. Do not fetch further ahead what has to wait for the other side."""
        for (topic, partition), records in found.items():
            self._orders[partition].add(topic, records)
            if self._labels is not None:
                self._bytes[topic, partition] += sum(map(size, records))
        if self._labels is None or not self._orders:
            return
        share = MOST_BYTES / (2 * len(self._orders))
        for partition in self._orders:
            for topic in self._sides.values():
                self._member.hold(topic, partition, self._bytes[topic, partition] > share)

    def take(self, most: int) -> Iterator[tuple[int, list[Any]]]:
        """Each partition's next records, if it has any, at most so many of each."""
        exhausted = self._exhausted()
        for partition, order in self._orders.items():
            if records := order.take(most, exhausted=partition in exhausted):
                if self._labels is not None:
                    for record in records:
                        self._bytes[record.topic, partition] -= size(record)
                yield partition, records

    def _exhausted(self) -> set[int]:
        """Partitions whose empty side has nothing more to read."""
        asked = {
            partition: (self._sides[side], partition)
            for partition, order in self._orders.items()
            if (side := order.waits_for())
        }
        if not asked:
            return set()
        lag = self._member.lag(asked.values())
        return {partition for partition, pair in asked.items() if lag[pair] <= 0}

    def lag(self) -> dict[tuple[str, int], int]:
        """By ("input" or "labels", partition): what was not read yet, and what waits."""
        pairs = [(topic, p) for topic in self._sides.values() for p in self._orders]
        unread = self._member.lag(pairs) if pairs else {}
        return {
            ("labels" if side == "labels" else "input", partition): unread[topic, partition]
            + len(getattr(order, side))
            for side, topic in self._sides.items()
            for partition, order in self._orders.items()
        }
