"""Times in messages: numbers since 1970, or dates as ISO 8601 writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from stream_can.messages.probability_formats import BadMessage

UNITS = (1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9)
"""Numbers below the first are seconds, milli-, micro- and nanoseconds: of these each begins in
1973, and seconds end in the year 5138."""


def seconds_of(text: bytes) -> float:
    """Seconds since 1970 of a time in a message or header.

    Parameters
    ----------
    text
        JSON, or plain text: a number of seconds, milli-, micro- or nanoseconds, told apart by their
        size, or an ISO 8601 date, without a zone in UTC.

    Raises
    ------
    BadMessage
        It is neither.
    """
    plain = text
    try:
        if text[:1] == b'"':
            plain = msgspec.json.decode(text, type=str).encode()
        return _seconds(plain.decode())
    except (ValueError, OverflowError, msgspec.DecodeError):
        shown = text[:40].decode(errors="replace")
        raise BadMessage(
            f"{shown} is no time: expected a number since 1970, or a date such as"
            " 2026-05-01T12:00:00Z"
        ) from None


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    for most, unit in UNITS:
        if 0 <= number < most:
            return number / unit
    raise ValueError
