"""Names in the text of an option, and beside those of a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    places = {str(c): k for k, c in enumerate(stored)}
    given = [] if classes is None else [str(c) for c in classes]
    if not stored or not given or given == [*places]:
        return None
    if given and {*given} == places.keys():
        return [places[c] for c in given]
    if [*places] == [str(k) for k in range(len(given))]:
        return None
    raise other_classes(name, stored, classes or ())


def other_classes(name: str, named: Sequence[Any], classes: Sequence[Any]) -> InvalidRecording:
    """The error of a file whose classes are not those that are given."""
    return InvalidRecording(
        f"{name}: its classes are {preview(named)}, but {preview(classes)} are expected"
    )
