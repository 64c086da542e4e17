"""What msgspec says of a setting that it refuses, in the words of the pages."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

__all__ = ["WORDS", "in_words"]

WORDS = {
    "float": "a number", "int": "an integer", "str": "text", "bool": "true or false",
    "array": "a list", "object": "a table",
}  # fmt: skip
"""Types as msgspec names them, in words."""


def in_words(kind: type[Any], error: str) -> str:
    """Say which setting, what it was given and what it takes; where these are few, each value."""
    match = re.fullmatch(r"Expected `(.*?)`, got `(.*?)` - at `\$\.(.*)`", error)
    if match is None:
        return error.replace("`$.", "`") + _choices(kind, error)
    expected, got, where = match.groups()
    types = [WORDS.get(one, one) for one in expected.split(" | ") if one != "null"]
    return f"{where}: {WORDS.get(got, got)}, expected {' or '.join(types)}"


def _choices(kind: type[Any], error: str) -> str:
    """The values that the setting of an error takes, where they are few."""
    match = re.search(r"enum value .* at `\$\.(\w+)`", error)
    types = [get_type_hints(kind).get(match[1])] if match else []
    while types and get_origin(types[0]) is not Literal:
        types = [*get_args(types[0]), *types[1:]]
    return f"; expected one of {', '.join(map(repr, get_args(types[0])))}" if types else ""
