"""The last dead letters, for people: where each came from and why, nothing of what was in it."""

from __future__ import annotations

import re
from collections.abc import Container

from msgspec import Struct

from stream_can.messages.records import Output

KEPT = 20
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


class Letter(Struct, frozen=True):
    """A dead letter that was committed."""

    time: float
    """When it was made, in seconds since 1970."""
    topic: str
    partition: int
    offset: int
    error: str
    """The exception's class."""
    reason: str
    """Its message; texts of the record are left out, the dead letter's headers have them."""


def letter(out: Output, now: float, ours: Container[str]) -> Letter:
    """Describe a dead letter for people.

    Parameters
    ----------
    out
        As it is sent.
    now
        The time.
    ours
        Texts that may be shown: names of the settings' fields.
    """
    source = out.source
    assert source is not None
    says = {
        name.removeprefix("__connect.errors."): (value or b"").decode(errors="replace")
        for name, value in out.headers
        if name.startswith("__connect.errors.")
    }
    error = says["exception.class.name"].rpartition(".")[2]
    return Letter(
        now,
        source.topic,
        source.partition,
        source.offset,
        error,
        without_payload(error, says["exception.message"], ours),
    )


def without_payload(error: str, reason: str, ours: Container[str]) -> str:
    """The reason without texts of the record."""
    if error == "UnknownClass":  # begins with what it found, unquoted
        return "a name" + reason[reason.rfind(" is none of the ") :]
    text = QUOTED.sub(lambda found: found[0] if found[0][1:-1] in ours else "'…'", reason)
    return text[:200]
