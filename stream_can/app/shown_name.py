"""Names in the status document, at a bounded length."""

from __future__ import annotations

LONGEST_NAME = 80


def shown_name(name: object) -> str:
    """A name of bounded length; whoever displays it must escape it."""
    text, half = str(name), LONGEST_NAME // 2
    return text if len(text) <= LONGEST_NAME else f"{text[:half]}…{text[1 - half :]}"
