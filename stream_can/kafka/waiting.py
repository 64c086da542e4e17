"""What was read and waits for its turn: held back where it is too much, taken in order.

Where a side is empty, the other goes on only if nothing more of it can be read. What fits into a
transaction is shared out between all partitions that have something.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
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
        self._got: dict[int, float] = {}
        """When the newest records of each partition came."""
        self.more = False
        """Whether the last `take` left something that could have been taken."""

    def assign(self, partitions: Iterable[int]) -> None:
        """These partitions are ours now; what waited before is forgotten."""
        self._orders = {partition: Order(self._labels) for partition in partitions}
        self._bytes.clear()
        self.more = False

    def add(self, found: Mapping[tuple[str, int], list[Any]]) -> None:
        """What a poll brought. Do not fetch further ahead what has to wait."""
        for (topic, partition), records in found.items():
            self._orders[partition].add(topic, records)
            self._got[partition] = time.monotonic()
            self._bytes[topic, partition] += sum(map(size, records))
        share = MOST_BYTES / (len(self._sides) * max(len(self._orders), 1))
        for partition in self._orders:
            for topic in self._sides.values():
                self._member.hold(topic, partition, self._bytes[topic, partition] > share)

    def take(self, most: int) -> dict[int, list[Any]]:
        """The next records of each partition that has any, together at most so many.

        Each gets the same share, and what one leaves of its share goes to the others. Who got
        something is the last in turn: fewer records than partitions reach all of them in the end.
        """
        taken: dict[int, list[Any]] = {}
        asking, left = [p for p, order in self._orders.items() if order], most
        exhausted = self._exhausted(asking)
        while asking and left > 0:
            share, given = -(-left // len(asking)), []
            for p in asking:
                found = self._orders[p].take(min(share, left), exhausted=p in exhausted)
                if found:
                    taken.setdefault(p, []).extend(found)
                    left -= len(found)
                    given.append(p)
            asking = given
        self.more = left <= 0
        for p, records in taken.items():
            self._orders[p] = self._orders.pop(p)
            for record in records:
                self._bytes[record.topic, record.partition] -= size(record)
        return taken

    def _exhausted(self, partitions: Iterable[int]) -> set[int]:
        """Partitions whose empty side has nothing more to read.

        It is looked for after the other side's records have come, so that what was written before
        them is taken before them.
        """
        asked = {
            partition: (self._sides[side], partition)
            for partition in partitions
            if (side := self._orders[partition].waits_for())
        }
        if not asked:
            return set()
        since = {pair: self._got[partition] for partition, pair in asked.items()}
        lag = self._member.lag(asked.values(), since)
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
