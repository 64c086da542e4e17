"""What waits for the other side is counted in bytes."""

from __future__ import annotations

from typing import Any

import pytest

from stream_can.kafka import waiting as waiting_module
from stream_can.kafka.waiting import MOST_BYTES, Waiting
from stream_can.stream.records import Record

pytestmark = pytest.mark.fast


class Held:
    """Who is told what not to fetch, and has nothing more to read."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, int], bool] = {}

    def hold(self, topic: str, partition: int, held: bool) -> None:
        self.held[topic, partition] = held

    def lag(self, pairs: Any) -> dict[tuple[str, int], int]:
        return dict.fromkeys(pairs, 0)


def records(n: int, size: int) -> list[Record]:
    return [Record("in", 0, i, i, b"k", b"x" * size) for i in range(n)]


@pytest.mark.parametrize(("size", "n"), [(1_000_000, 17), (100, 41_840)])
def test_large_records_are_not_read_far_ahead(size: int, n: int) -> None:
    member = Held()
    waiting = Waiting(member, "in", "labels")  # type: ignore[arg-type]
    waiting.assign([0, 1])
    waiting.add({("in", 0): records(n - 3, size)})
    assert not any(member.held.values())
    waiting.add({("in", 0): records(n, size)[n - 3 :]})
    assert [pair for pair, held in member.held.items() if held] == [("in", 0)]
    assert waiting_module.size(records(1, size)[0]) * n > MOST_BYTES / 4
    taken = [record for _, some in waiting.take(n) for record in some]
    assert len(taken) == n
    waiting.add({})
    assert not any(member.held.values())
