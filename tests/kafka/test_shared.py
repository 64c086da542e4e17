"""Where the newest records of a state topic are looked for."""

from __future__ import annotations

import pytest

from stream_can import Corrector
from stream_can.kafka import restore
from stream_can.kafka.shared import is_shared, key, nearest_first, pack, unpack
from stream_can.stream.replica import Replica
from stream_can.stream.terms import Terms

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("begin", "end", "starts"),
    [
        (0, 50_000, [49_000, 30_000, 0]),
        (40_000, 50_000, [49_000, 40_000]),
        (49_500, 50_000, [49_500]),
        (7, 7, [7]),
    ],
)
def test_the_end_comes_first_and_nothing_twice(begin: int, end: int, starts: list[int]) -> None:
    assert nearest_first(begin, end) == starts


@pytest.mark.parametrize("topic", ["shared", "shared-3", "shared.x"])
def test_positions_of_no_topic_have_the_key_of_a_shared_record(topic: str) -> None:
    shared = {key("together", 0), *(key("apart", partition) for partition in range(64))}
    assert all(map(is_shared, shared))
    for partition in range(64):
        assert not is_shared(restore.key(topic, partition))


def test_a_shared_record_says_where_its_log_began_anew() -> None:
    corrector = Corrector(3)
    assert unpack(pack(Replica(corrector, 9))).epoch == 0
    again = unpack(pack(Replica(corrector, 9, Terms(epoch=4, held=(b"12345678",)))))
    assert (again.offset, again.epoch, again.terms.held) == (9, 4, (b"12345678",))
    assert again.corrector.to_bytes() == corrector.to_bytes()
