"""Times in messages: which unit a number has, dates, and what is none."""

from __future__ import annotations

import pytest

from stream_can.messages.messages import BadMessage
from stream_can.messages.times import seconds_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (b"0", 0.0),
        (b"1780000000", 1_780_000_000.0),
        (b"1780000000.25", 1_780_000_000.25),
        (b"1780000000250", 1_780_000_000.25),
        (b"1780000000250000", 1_780_000_000.25),
        (b"1780000000250000000", 1_780_000_000.25),
        (b'"1780000000250"', 1_780_000_000.25),
        (b'"2026-05-28T20:26:40Z"', 1_780_000_000.0),
        (b'"2026-05-28T20:26:40"', 1_780_000_000.0),
        (b'"2026-05-28 22:26:40.5+02:00"', 1_780_000_000.5),
        (b"2026-05-28T20:26:40Z", 1_780_000_000.0),
    ],
)
def test_times_are_read(text: bytes, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("text", [b'"soon"', b"-5", b"true", b"{}", b"1e30", b"NaN", b"\xff", b""])
def test_others_are_refused_by_name(text: bytes) -> None:
    with pytest.raises(BadMessage, match="no time: expected a number since 1970, or a date"):
        seconds_of(text)
