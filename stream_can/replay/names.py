"""A class name as text for people, whatever is in it."""

from __future__ import annotations

import unicodedata
from typing import Any

__all__ = ["readable"]


def readable(name: Any, limit: int = 80) -> str:
    """The name on one line, without what would move the cursor or break the encoding.

    Parameters
    ----------
    name
        Of a class: a text, a number or a bool.
    limit
        Longer names lose their middle: what tells long names apart is often at the end.

    Examples
    --------
    >>> readable("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    >>> readable("abcdefghij", limit=7)
    'abc…hij'
    """
    text = "".join(_plain(char) for char in str(name))
    if len(text) <= limit:
        return text
    head = limit // 2
    return f"{text[:head]}…{text[len(text) - (limit - head - 1) :]}"


def _plain(char: str) -> str:
    # Control characters, halves of surrogate pairs, ends of lines. Joiners and marks of direction
    # stay: they are part of how emoji and Arabic are written.
    if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp"):
        return char.encode("unicode_escape").decode()
    return char
