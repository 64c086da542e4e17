"""VariantTable: variants played beside a replay, as a table, a sentence, and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class VariantTable(NamedTuple):
    """Variants of one sort."""

    title: str
    heads: Sequence[str]
    """Column names; the first column names the variants."""
    rows: Sequence[Sequence[str]]
    summary: str
    """What the figures show, as text."""
    variants: list[dict[str, Any]]
    """The variants as JSON."""
    figures: Sequence[tuple[str, str, str]] = ()
    """Title, figure (HTML) and caption of each, for a page."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {"tried": self.variants, "said": self.summary}
