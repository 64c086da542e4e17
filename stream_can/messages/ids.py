"""Ids: what joins a label to its prediction, in whichever notation it is written.

An integer, its text, an equal float below 2^53, as pandas makes of integers beside missing ones,
and the text of that (7.0) are one id.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from stream_can.messages.columns import header_bytes
from stream_can.messages.fields import HEADER
from stream_can.messages.probability_formats import BadMessage

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

EXACT = 2**53
"""From here on a float stands for several integers."""

_read = msgspec.json.Decoder().decode
_FLOAT = re.compile(rb"-?[\d.]+[\d.eE+-]*").fullmatch
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)\.0").fullmatch


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


def id_of_text(text: str) -> str:
    """The text of an id that was written as text: of a whole number below 2^53 without its ".0"."""
    if text.endswith(".0") and _WHOLE(text) and abs(value := float(text)) < EXACT:
        return id_of_float(value)
    return text


def id_of_json(raw: bytes) -> bytes | None:
    """The id in a JSON text; None for null.

    Raises
    ------
    BadMessage
        As above.
    """
    if raw[:1] == b'"':
        text: str = _read(raw)
        return id_of_text(text).encode()
    if raw == b"null":
        return None
    if _FLOAT(raw) and not raw.removeprefix(b"-").isdigit():
        return id_of_float(float(raw)).encode()
    return raw


class IdPlace:
    """Where messages have their id: a field, ``header:NAME``, or, of None, the record's key."""

    def __init__(self, place: str | None) -> None:
        self._is_key, self._path = place is None, (place or "").split(".")
        self._header = place[len(HEADER) :] if place and place.startswith(HEADER) else None

    def id_in(self, find: Any, message: Any, key: bytes | None, headers: Headers) -> bytes | None:
        """Id of an opened message, in which ``find`` is as for `Codec.find`; None without one.

        Raises
        ------
        BadMessage
            It is a float that no other message could name.
        """
        if self._is_key:
            return key
        text = self.text_in(find, message, headers)
        return text if text is None or self._header is not None else id_of_json(text)

    def text_in(self, find: Any, message: Any, headers: Headers) -> bytes | None:
        """The header, or the JSON text of the field; None without one."""
        if self._header is not None:
            return header_bytes(headers, self._header)
        text = find(message, self._path)
        return None if text is None else bytes(text)
