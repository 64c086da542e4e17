"""What waits is counted in bytes, and shared out between the partitions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stream_can.kafka import waiting as waiting_module
from stream_can.kafka.waiting import MOST_BYTES, Waiting
from stream_can.messages.records import Record

pytestmark = pytest.mark.fast


class Held:
    """Who is told what not to fetch, and has nothing more to read but what it is told of."""

    def __init__(self, **unread: int) -> None:
        self.held: dict[tuple[str, int], bool] = {}
        self.unread = unread
        self.told: dict[tuple[str, int], float] = {}
        self.asked = 0

    def hold(self, topic: str, partition: int, held: bool) -> None:
        self.held[topic, partition] = held

    def ended(self, pairs: Any) -> dict[tuple[str, int], float]:
        return {pair: self.told[pair] for pair in pairs if pair in self.told}

    def lag(self, pairs: Any, since: Any = None) -> dict[tuple[str, int], int]:
        self.asked += 1
        return {(topic, p): self.unread.get(topic, 0) for topic, p in pairs}


def records(n: int, size: int = 1, partition: int = 0, topic: str = "in") -> list[Record]:
    return [Record(topic, partition, i, i, b"k", b"x" * size) for i in range(n)]


@pytest.mark.parametrize(
    ("size", "n", "labels"), [(1_000_000, 17, True), (100, 41_840, True), (1_000_000, 34, False)]
)
def test_large_records_are_not_read_far_ahead(size: int, n: int, labels: bool) -> None:
    member = Held()
    waiting = Waiting(member, "in", "labels" if labels else None)  # type: ignore[arg-type]
    waiting.assign([0, 1])
    waiting.add({("in", 0): records(n - 3, size)})
    assert not any(member.held.values())
    waiting.add({("in", 0): records(n, size)[n - 3 :]})
    assert [pair for pair, held in member.held.items() if held] == [("in", 0)]
    assert waiting_module.size(records(1, size)[0]) * n > MOST_BYTES / 4
    taken = [record for some in waiting.take(n).values() for record in some]
    assert len(taken) == n
    waiting.add({})
    assert not any(member.held.values())


def test_a_transaction_has_records_of_every_partition() -> None:
    """Before, each partition took as many as a whole transaction, one after the other."""
    waiting = Waiting(Held(), "in", "labels")  # type: ignore[arg-type]
    waiting.assign(range(4))
    waiting.add({("in", p): records(n, 1, p) for p, n in enumerate((500, 3, 0, 500))})
    taken = waiting.take(100)
    assert {p: len(some) for p, some in taken.items()} == {0: 49, 1: 3, 3: 48}
    assert waiting.more
    assert {p: len(some) for p, some in waiting.take(1000).items()} == {0: 451, 3: 452}
    assert not waiting.more
    assert waiting.take(1000) == {}


def test_fewer_places_than_partitions_go_round() -> None:
    waiting = Waiting(Held(), "in", None)  # type: ignore[arg-type]
    waiting.assign(range(5))
    waiting.add({("in", p): records(50, 1, p) for p in range(5)})
    assert [sorted(waiting.take(2)) for _ in range(5)] == [[0, 1], [2, 3], [0, 4], [1, 2], [3, 4]]


def test_shares_keep_the_order_of_both_sides() -> None:
    member = Held(labels=7)
    waiting = Waiting(member, "in", "labels")  # type: ignore[arg-type]
    waiting.assign([0, 1])
    for p in range(2):
        waiting.add({("in", p): records(60, 1, p), ("labels", p): records(20, 1, p, "labels")})
    first, then = waiting.take(30), waiting.take(1000)
    for p in range(2):
        taken = first[p] + then[p]
        assert [r.timestamp for r in taken] == sorted([*range(20), *range(21)][:40])
        assert len(first[p]) == 15
    assert not waiting.more  # the predictions wait for labels that there still are
    assert waiting.take(1000) == {}
    member.unread.clear()
    assert {p: len(some) for p, some in waiting.take(1000).items()} == {0: 40, 1: 40}


def test_what_fetches_tell_lets_records_go_without_a_question() -> None:
    """Before, the loop waited for an answer of the brokers at nearly every poll."""
    member = Held()
    waiting = Waiting(member, "in", "labels")  # type: ignore[arg-type]
    waiting.assign([0])
    waiting.add({("in", 0): records(3)})
    between = time.monotonic()
    waiting.add({("in", 0): records(5)[3:]})
    assert waiting.take(100, patience=1000) == {}
    member.told["labels", 0] = between  # asked for then: the last two may be behind a label
    assert [r.offset for r in waiting.take(2, patience=1000)[0]] == [0, 1]
    assert [r.offset for r in waiting.take(100, patience=1000)[0]] == [2]
    assert waiting.take(100, patience=1000) == {}
    assert member.asked == 0
    assert [r.offset for r in waiting.take(100, patience=0)[0]] == [3, 4]
    assert member.asked == 1
    waiting.add({("labels", 0): records(2, topic="labels"), ("in", 0): records(6)[5:]})
    waiting.add({("in", 0): records(8)[6:]})
    member.told.clear()
    assert [r.topic for r in waiting.take(100, patience=1000)[0]] == ["labels"] * 2
    assert waiting.take(100, patience=1000) == {}
    member.told["labels", 0] = time.monotonic() + 1
    assert [r.offset for r in waiting.take(100, patience=1000)[0]] == [5, 6, 7]
    assert member.asked == 1
