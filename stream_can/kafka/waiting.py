"""Records that were read and wait for their turn: taken in order, not read too far ahead.

Where one side of a partition (predictions or labels) is empty, the other goes on only if the empty
one has nothing more to read. All partitions with records share what a transaction may hold.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stream_can.kafka.client.member import Member
from stream_can.kafka.order import Order

MOST_BYTES = 64 << 20
"""Of all records that wait. A partition is not fetched while it has more than its share."""
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
    ready
        Whether a record can be taken; one that cannot holds back what follows it in its partition.
    """

    def __init__(
        self,
        member: Member,
        input: str,
        labels: str | None,
        ready: Callable[[Any], bool] | None = None,
    ) -> None:
        self._member, self._ready = member, ready
        self._sides = {"predictions": input, "labels": labels} if labels else {"predictions": input}
        self._labels = labels
        self._orders: dict[int, Order] = {}
        self._bytes: Counter[tuple[str, int]] = Counter()
        self._came: defaultdict[tuple[str, int], deque[tuple[float, int]]] = defaultdict(deque)
        """When the records that wait came, and how many at a time."""
        self.more = False
        """Whether the last `take` left something that could have been taken."""

    def assign(self, partitions: Iterable[int]) -> None:
        """These partitions are ours now; what waited before is forgotten."""
        self._orders = {partition: Order(self._labels) for partition in partitions}
        self._bytes.clear()
        self._came.clear()
        self.more = False

    def add(self, found: Mapping[tuple[str, int], list[Any]]) -> None:
        """Take what a poll brought, and hold back partitions of which too much waits."""
        now = time.monotonic()
        for (topic, partition), records in found.items():
            self._orders[partition].add(topic, records)
            self._came[topic, partition].append((now, len(records)))
            self._bytes[topic, partition] += sum(map(size, records))
        share = MOST_BYTES / (len(self._sides) * max(len(self._orders), 1))
        for partition in self._orders:
            for topic in self._sides.values():
                self._member.hold(topic, partition, self._bytes[topic, partition] > share)

    def take(self, most: int, patience: float = 0.0) -> dict[int, list[Any]]:
        """The next records of each partition that has any, together at most so many.

        Each gets the same share; what one leaves goes to the others. A partition that got
        something goes to the end of the line. So each has its turn, even where a transaction holds
        fewer records than there are partitions.

        Parameters
        ----------
        most
            Of all partitions together.
        patience
            Seconds that a record may wait until the answers to fetches tell whether the other side
            has more to read. Behind that the brokers are asked, which keeps the caller waiting.
        """
        taken: dict[int, list[Any]] = {}
        asking, left = [p for p, order in self._orders.items() if order], most
        free = self._free(asking, patience)
        while asking and left > 0:
            share, given = -(-left // len(asking)), []
            for p in asking:
                at_most = min(share, left, free.get(p, left))
                found = self._orders[p].take(at_most, exhausted=p in free)
                some = len(found)
                if self._ready is not None:
                    found = self._of_ready(p, found)
                if found:
                    taken.setdefault(p, []).extend(found)
                    left -= len(found)
                    if p in free:
                        free[p] -= len(found)
                    if len(found) == some:
                        given.append(p)
            asking = given
        self.more = left <= 0
        for p, records in taken.items():
            self._orders[p] = self._orders.pop(p)
            for record in records:
                self._bytes[record.topic, record.partition] -= size(record)
            for pair, n in Counter((record.topic, record.partition) for record in records).items():
                self._forget(pair, n)
        return taken

    def _of_ready(self, partition: int, records: list[Any]) -> list[Any]:
        """Of records that were taken those before the first that is not ready; it waits on."""
        assert self._ready is not None
        n = next((i for i, one in enumerate(records) if not self._ready(one)), len(records))
        self._orders[partition].put_back(records[n:])
        return records[:n]

    def _forget(self, pair: tuple[str, int], n: int) -> None:
        """So many of the records that came first do not wait any more."""
        came = self._came[pair]
        while n:
            when, waiting = came.popleft()
            if waiting > n:
                came.appendleft((when, waiting - n))
            n -= min(n, waiting)

    def _free(self, partitions: Iterable[int], patience: float) -> dict[int, int]:
        """Of each partition with an empty side, how many records of the other need not wait for it.

        Those that came before it was asked for the end that has been reached: nothing that was
        written before them can still be unread.
        """
        empty = {p: side for p in partitions if (side := self._orders[p].waits_for())}
        if not empty:
            return {}
        pairs = {p: (self._sides[side], p) for p, side in empty.items()}
        full = {
            p: ("labels" if side == "predictions" else "predictions") for p, side in empty.items()
        }
        came = {p: self._came[self._sides[side], p] for p, side in full.items()}
        ended = self._member.ended(pairs.values())
        before = time.monotonic() - patience
        late = {
            pairs[p]: waiting[-1][0]
            for p, waiting in came.items()
            if any(ended.get(pairs[p], 0.0) <= when <= before for when, _ in waiting)
        }
        if late:
            lag = self._member.lag(late, late)
            ended |= {pair: math.inf for pair in late if lag[pair] <= 0}
        return {
            p: sum(n for when, n in waiting if when < ended.get(pairs[p], 0.0))
            for p, waiting in came.items()
        }

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
