"""The values of columns that come with a prediction's message: where they stand, what they are.

The name of a column is its place: a field of the message, ``customer.country`` inside of one, or
``header:NAME`` for a header of the record. A value is a string, an integer or a boolean of JSON, or
a header's text. What is missing, null, or none of these (a measurement, an object) is not given;
the prediction is corrected all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stream_can.messages.fields import HEADER
from stream_can.method.segments import text_of

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

__all__ = ["Columns", "Given", "Table", "header_bytes", "length", "table"]

Given = tuple[str | None, ...]
"""Values of the columns in one row; None where it gives none."""
Table = dict[str, list[str | None]]
"""Values of many rows, column by column."""

LONGEST = 1000
"""Characters of a value. Each travels with its labels; what is longer is a text, and no name."""

_integer = re.compile(rb"-?[0-9]+").fullmatch
_read_any = msgspec.json.Decoder().decode


class Columns:
    """Finds the values in messages.

    Parameters
    ----------
    names
        The declared columns.
    others
        The paths of the other fields, and what each is: none of them is a column.

    Raises
    ------
    ValueError
        A name is no place in a message, or that of another field.
    """

    def __init__(self, names: Sequence[str], others: dict[str, str]) -> None:
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
            for path, what in others.items():
                if path == name or path.startswith(f"{name}.") or name.startswith(f"{path}."):
                    raise ValueError(f"segments: {name!r} is the field of {what}")
            self._places.append(name.split("."))

    def read(self, find: Any, message: Any, headers: Headers) -> tuple[Given, str | None]:
        """The values that a message gives, and what is wrong with the first that is none.

        ``find`` gets the JSON text of the value at a path out of the opened message, None where
        there is none.
        """
        given: list[str | None] = []
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
            given.append(text)
        return tuple(given), fault


def _in_json(raw: bytes) -> str | None:
    """Text of a JSON value as a column's; ValueError where it is none."""
    if _integer(raw):  # of any length: msgspec makes floats of those beyond 64 bits
        return "0" if raw == b"-0" else raw.decode()
    try:
        value = _read_any(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
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
    """The text of a header."""
    value = header_bytes(headers, name)
    return None if value is None else value.decode()


def table(names: Sequence[str], rows: Sequence[Given | None]) -> Table:
    """Values of rows, as a Corrector takes them."""
    return {
        name: [None if given is None else given[k] for given in rows]
        for k, name in enumerate(names)
    }


def length(given: Given | None) -> int:
    """How many characters the values have together."""
    return 0 if given is None else sum([len(text) for text in given if text is not None])
