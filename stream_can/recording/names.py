"""Names in the text of an option."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from stream_can.errors import StreamCANError

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
