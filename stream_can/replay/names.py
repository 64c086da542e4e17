"""Make class names printable."""

from __future__ import annotations

import unicodedata
from typing import Any


def readable(name: Any, limit: int = 80) -> str:
    """The name on one line, without characters that move the cursor or break the encoding.

    Parameters
    ----------
    name
        Name of a class: a text, number or bool.
    limit
        Longer names lose their middle: long names often differ at the end.

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
    # Control characters, halves of surrogate pairs, line ends. Joiners and direction marks stay:
    # emoji and Arabic need them.
    if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp"):
        return char.encode("unicode_escape").decode()
    return char
