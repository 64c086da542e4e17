"""RowParser: the row of a message, in an ordinary form or as platforms write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from stream_can.errors import UnknownClass
from stream_can.messages.codecs.json import MANY
from stream_can.messages.counting import elements
from stream_can.messages.faults import UNREADABLE
from stream_can.messages.platforms import PlainRow, plain_row
from stream_can.messages.probability_formats import BadMessage, Forms, PlatformForm

_read_any = msgspec.json.Decoder().decode


class RowParser:
    """Parses rows.

    Parameters
    ----------
    forms
        The ordinary forms.
    widest
        Largest number of classes of a row.
    """

    def __init__(self, forms: Forms, widest: int) -> None:
        self._forms, self._most = forms, 2 * (widest + MANY)

    def parse(self, read: Callable[..., Any], original: Any, where: str) -> tuple[Any, Any]:
        """Parse a row and its form by a codec's ``read``; where it has no ordinary form, as
        platforms write it. BadMessage, UnknownClass; the text begins with ``where``."""
        try:
            return read(original, self._forms, where)  # type: ignore[no-any-return]
        except (BadMessage, UnknownClass):
            if (plain := self._plain(original)) is None:
                raise
            row, form = read(Raw(msgspec.json.encode(plain.probs)), self._forms, where)
            return row, PlatformForm(form, plain.back)

    def ordinary(self, original: Any) -> Raw | None:
        """Probabilities of a platform in their ordinary form; None for others."""
        plain = self._plain(original)
        return None if plain is None else Raw(msgspec.json.encode(plain.probs))

    def _plain(self, original: Any) -> PlainRow | None:
        """Probabilities that are written as platforms do; None for others, and very long ones."""
        if type(original) is not Raw:
            return None
        text = bytes(original)
        commas = text.count(b",") if text[:1] == b'"' else 0
        if max(elements(original, self._most), commas) > self._most:
            return None
        try:
            return plain_row(_read_any(original))
        except UNREADABLE:
            return None
