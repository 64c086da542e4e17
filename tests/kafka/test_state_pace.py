"""How many rows a state takes."""

from __future__ import annotations

import pytest

from stream_can.kafka.state_pace import MOST_BYTES_A_SECOND, ROWS, StatePace

pytestmark = pytest.mark.fast


def test_states_grow_in_a_backlog_until_it_is_nearly_over() -> None:
    """They were small again after each that left fewer rows than it may take: half of the states
    of a backlog were."""
    pace, rows = StatePace(0.2), []
    for waiting in (400, 600, 5_000, 5_000, 3_000, 900, 400):
        pace.wrote(0, 100, waiting)
        rows.append(pace.most_rows // ROWS)
        assert pace.is_due(ROWS)  # whatever is there by then is taken
        assert pace.in_backlog == (rows[-1] > 1)
    assert rows == [1, 2, 4, 8, 8, 1, 1]
    for _ in range(10):
        pace.wrote(0, 100, 1_000_000)
    assert pace.most_rows == 20 * ROWS


def test_large_states_come_less_often() -> None:
    pace = StatePace(0.2)
    pace.wrote(10.0, 2 * MOST_BYTES_A_SECOND, 0)
    assert (pace.due, pace.enough_rows, pace.most_rows) == (12.0, 10 * ROWS, 10 * ROWS)
