"""Ids: what joins a label to its prediction, in whichever notation it is written.

An integer, its text and an equal float below 2^53, as pandas makes of integers beside missing ones,
are one id.
"""

from __future__ import annotations

import re

import msgspec

from stream_can.messages.forms import BadMessage

__all__ = ["id_of_float", "id_of_json"]

EXACT = 2**53
"""From here on a float stands for several integers."""

_read = msgspec.json.Decoder().decode
_FLOAT = re.compile(rb"-?[\d.]+[\d.eE+-]*").fullmatch


def id_of_float(value: float) -> str:
    """The text of an id that was written as a float.

    Raises
    ------
    BadMessage
        It is no whole number below 2^53.
    """
    if not value.is_integer() or abs(value) >= EXACT:
        raise BadMessage(
            f"id: {value!r} is a float, which joins nothing unless it is a whole number below 2^53;"
            " write it as an integer or a text"
        )
    return str(int(value))


def id_of_json(raw: bytes) -> bytes | None:
    """The id in a JSON text; None for null.

    Raises
    ------
    BadMessage
        As above.
    """
    if raw[:1] == b'"':
        text: str = _read(raw)
        return text.encode()
    if raw == b"null":
        return None
    if _FLOAT(raw) and not raw.removeprefix(b"-").isdigit():
        return id_of_float(float(raw)).encode()
    return raw
