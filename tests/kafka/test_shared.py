"""Where the newest records of a state topic are looked for."""

from __future__ import annotations

import pytest

from stream_can.kafka.shared import nearest_first

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
