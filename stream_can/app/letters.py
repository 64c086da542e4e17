"""The last dead letters, for display: origin and reason, without content of the message."""

from __future__ import annotations

import re
from collections.abc import Container

from msgspec import Struct

from stream_can.messages.records import Output

KEPT = 20
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


class Letter(Struct, frozen=True):
    """A committed dead letter."""

    time: float
    """Time in seconds since 1970."""
    topic: str
    partition: int
    offset: int
    error: str
    """Class of the exception."""
    reason: str
    """Its message without texts of the record, which the dead letter's headers have."""


def letter(out: Output, now: float, ours: Container[str]) -> Letter:
    """Describe a dead letter for display.

    Parameters
    ----------
    out
        The dead letter.
    now
        The time.
    ours
        Texts that may be shown: field names of the settings.
    """
    source = out.source
    assert source is not None
    headers = {
        name.removeprefix("__connect.errors."): (value or b"").decode(errors="replace")
        for name, value in out.headers
        if name.startswith("__connect.errors.")
    }
    error = headers["exception.class.name"].rpartition(".")[2]
    return Letter(
        now,
        source.topic,
        source.partition,
        source.offset,
        error,
        without_payload(error, headers["exception.message"], ours),
    )


def without_payload(error: str, reason: str, ours: Container[str]) -> str:
    """The reason without texts of the record."""
    if error == "UnknownClass":  # begins with the value, unquoted
        return "a name" + reason[reason.rfind(" is none of the ") :]
    text = QUOTED.sub(lambda quoted: quoted[0] if quoted[0][1:-1] in ours else "'…'", reason)
    return text[:200]
