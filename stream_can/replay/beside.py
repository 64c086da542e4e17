"""Variants that were played beside a replay: a table, a sentence, and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Beside"]


class Beside(NamedTuple):
    """Variants of one kind."""

    title: str
    heads: Sequence[str]
    """Names of the columns; the first is of the variants."""
    rows: Sequence[Sequence[str]]
    said: str
    """What the figures show."""
    data: list[dict[str, Any]]
    """The variants as JSON would have them."""

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON would have it."""
        return {"tried": self.data, "said": self.said}
