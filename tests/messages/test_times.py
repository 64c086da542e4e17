"""Times in messages: which unit a number has, dates, and what is none."""

from __future__ import annotations

import time

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
        (b"99999999999", 99_999_999_999.0),  # the last of each unit, and the first of the next
        (b"100000000000", 1e8),
        (b"99999999999999", 99_999_999_999.999),
        (b"100000000000000", 1e8),
        (b"99999999999999000", 99_999_999_999.999),
        (b"100000000000000000", 1e8),
        (b"99999999999999000000", 99_999_999_999.999),
        (b'"2026-05-28T20:26:40Z"', 1_780_000_000.0),
        (b'"2026-05-28T20:26:40"', 1_780_000_000.0),
        (b'"2026-05-28 22:26:40.5+02:00"', 1_780_000_000.5),
        (b"2026-05-28T20:26:40Z", 1_780_000_000.0),
    ],
)
def test_times_are_read(text: bytes, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds, rel=1e-15, abs=1e-6)


@pytest.mark.parametrize("text", [b'"soon"', b"-5", b"true", b"{}", b"1e20", b"NaN", b"\xff", b""])
def test_others_are_refused_by_name(text: bytes) -> None:
    with pytest.raises(BadMessage, match="no time: expected a number since 1970, or a date"):
        seconds_of(text)


def test_a_date_without_a_zone_is_utc_wherever_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert seconds_of(b'"2026-05-28T20:26:40"') == 1_780_000_000
    finally:
        monkeypatch.undo()
        time.tzset()
