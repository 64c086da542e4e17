"""Names in the text of an option, and beside those of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from stream_can.errors import StreamCANError
from stream_can.method.class_names import preview
from stream_can.recording.table import InvalidRecording

WAYS = "cat,dog,eel, a JSON array, or a file of names that exists"
"""How class names are written in an option."""


def classes_of(text: str | None, *, declared: bool) -> Any:
    """Parse the option of the classes: their names, or where these are not declared their number,
    or "any"."""
    if declared:
        return names_of(text)
    return "any" if text is None else int(text) if text.isdigit() else text


def names_of(text: str | None) -> list[Any] | None:
    """Parse class names: comma-separated, a JSON array, or a file of either or of lines."""
    if text is None:
        return None
    with suppress(OSError, ValueError):  # ValueError: a null byte
        if Path(text).is_file():
            text = Path(text).read_text(encoding="utf-8-sig").strip()
            if "\n" in text and not text.startswith("["):
                return [line.strip() for line in text.splitlines() if line.strip()]
    if not text.startswith("["):
        return listed(text)
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except ValueError as error:
        raise StreamCANError(f"classes: {text[:80]!r} is no JSON array: {error}") from None


def listed(text: str) -> list[str]:
    """Split a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def order_of(name: str, stored: Sequence[Any], classes: Sequence[Any] | None) -> list[int] | None:
    """Place among the classes that a file names of each class that is given; None where the order
    is the same, or one of them has no names."""
    if not stored or classes is None or not len(classes):
        return None
    places, given = {str(c): k for k, c in enumerate(stored)}, [str(c) for c in classes]
    if [*places] in (given, [str(k) for k in range(len(given))]):
        return None
    if {*given} == places.keys():
        return [places[c] for c in given]
    raise other_classes(name, stored, classes)


def in_order_of(classes: Sequence[Any], named: Mapping[str, str]) -> list[str] | None:
    """The columns of these classes, which may be spelled in another case; None where they are
    others."""
    for spelled in (str, lambda c: str(c).casefold()):
        columns = {spelled(text): column for text, column in named.items()}
        if len(columns) == len(named) and {spelled(c) for c in classes} == columns.keys():
            return [columns[spelled(c)] for c in classes]
    return None


def other_classes(name: str, named: Sequence[Any], classes: Sequence[Any]) -> InvalidRecording:
    """The error of a file whose classes are not those that are given."""
    here, given = ({str(c): c for c in some} for some in (named, classes))
    lacks = preview([c for text, c in given.items() if text not in here])
    more = preview([c for text, c in here.items() if text not in given])
    return InvalidRecording(
        f"{name}: its classes are not those expected: it lacks {lacks or 'none'}, and has"
        f" {more or 'none'} besides"
    )
