"""Values of columns in a prediction's message.

A column's name is its place: a field of the message, ``customer.country`` for a nested one, or
``header:NAME`` for a header of the record. A value is a JSON string, integer or boolean, or a
header's text. A missing, null or unsuitable value (a measurement, an object) counts as not given;
the prediction is corrected all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stream_can.messages.faults import UNREADABLE, json_fault
from stream_can.messages.fields import HEADER
from stream_can.method.segments import text_of

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

SegmentTexts = tuple[str | None, ...]
"""Column values of one row; None where it has none."""
Table = dict[str, list[str | None]]
"""Values of many rows, by column."""

LONGEST = 1000
"""Maximum length of a value. Each travels with its labels; a longer text is hardly a category."""

_integer = re.compile(rb"-?[0-9]+").fullmatch
_read_any = msgspec.json.Decoder().decode


class Columns:
    """Extracts column values from messages.

    Parameters
    ----------
    names
        Names of the declared columns.
    other_fields
        Paths and meanings of the other fields; no column may share them.

    Raises
    ------
    ValueError
        A name is not a valid place, or belongs to another field.
    """

    def __init__(self, names: Sequence[str], other_fields: dict[str, str]) -> None:
        self.names = tuple(names)
        self._places: list[str | list[str]] = []
        for name in names:
            if name.startswith(HEADER):
                self._places.append(name[len(HEADER) :])
                continue
            if not all(name.split(".")):
                raise ValueError(
                    f"segments: {name!r} is no field name, dotted path or 'header:NAME'"
                )
            for path, meaning in other_fields.items():
                if path == name or path.startswith(f"{name}.") or name.startswith(f"{path}."):
                    raise ValueError(f"segments: {name!r} is the field of {meaning}")
            self._places.append(name.split("."))

    def values_in(
        self, find: Any, message: Any, headers: Headers
    ) -> tuple[SegmentTexts, str | None]:
        """Extract a message's column values; also describe the first invalid one.

        ``find`` returns the JSON text of the value at a path of the opened message, or None.
        """
        values: list[str | None] = []
        fault = None
        for name, place in zip(self.names, self._places, strict=True):
            try:
                if type(place) is str:
                    text = _in_header(headers, place)
                else:
                    raw = find(message, place)
                    text = None if raw is None else _in_json(bytes(raw))
                if text is not None and len(text) > LONGEST:
                    raise ValueError(f"{text[:20]!r}... has {len(text)} characters")
            except ValueError as error:
                text, fault = None, fault or f"{name}: {error}; not given"
            values.append(text)
        return tuple(values), fault


def _in_json(raw: bytes) -> str | None:
    """Column text of a JSON value; ValueError where it is unsuitable."""
    if _integer(raw):  # any length; msgspec turns integers beyond 64 bits into floats
        return "0" if raw == b"-0" else raw.decode()
    try:
        value = _read_any(raw)
    except UNREADABLE:
        raise ValueError(json_fault(raw)) from None
    if isinstance(value, dict | list):
        raise ValueError(f"an {'object' if isinstance(value, dict) else 'array'}")
    return text_of(value)


def header_bytes(headers: Headers, name: str) -> bytes | None:
    """Value of a header: the last one of this name."""
    value = None
    for key, data in headers:
        if key == name:
            value = data
    return value


def _in_header(headers: Headers, name: str) -> str | None:
    """Text of a header."""
    value = header_bytes(headers, name)
    return None if value is None else value.decode()


def table(names: Sequence[str], rows: Sequence[SegmentTexts | None]) -> Table:
    """Values of rows as a Corrector takes them."""
    return {name: [None if row is None else row[k] for row in rows] for k, name in enumerate(names)}


def length(values: SegmentTexts | None) -> int:
    """Total number of characters of the values."""
    return 0 if values is None else sum([len(text) for text in values if text is not None])
