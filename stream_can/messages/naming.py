"""Which model and which version a message is of.

Both together name a lane: what corrects the predictions of one version of one model. Where neither
is looked for, there is one lane, which has no name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stream_can.messages.columns import Columns
from stream_can.messages.fields import Fields
from stream_can.messages.forms import BadMessage

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

Names = tuple[str | None, str | None]
"""Model and version, as far as they are given."""
Find = Callable[[Any, Sequence[str]], Any]
"""Gets the JSON text of the value at a path out of an opened message, None where there is none."""

__all__ = ["UNNAMED", "LaneName", "Naming"]

LONGEST = 200
"""Characters of a name: it is part of keys, and stands in each entry of the lane."""
MOST_KNOWN = 10_000
"""Texts of names that are remembered."""


class LaneName(NamedTuple):
    """A model and its version; where one of them is not looked for it is empty."""

    model: str
    version: str

    def __str__(self) -> str:
        return f"{self.model} {self.version}".strip()


UNNAMED = LaneName("", "")


class Naming:
    """Finds the names in messages.

    Parameters
    ----------
    fields
        Those that say where ``model`` and ``version`` are: at least one of them does.
    """

    def __init__(self, fields: Fields) -> None:
        self.has_model, self.has_version = fields.model is not None, fields.version is not None
        given = {"model": fields.model, "version": fields.version}
        self._places = {what: place for what, place in given.items() if place is not None}
        places = tuple(self._places.values())
        self._columns = Columns(places, {})
        # Fields of the message itself: their text says all, and comes again and again.
        plain = not any(c in place for place in places for c in ".:")
        self._plain = [[place] for place in places] if plain else None
        self._known: dict[tuple[Any, ...], Names] = {}

    def of_prediction(self, find: Find, message: Any, headers: Headers) -> LaneName:
        """The lane of a prediction's opened message; BadMessage where a name is missing."""
        model, version = self.of_label(find, message, headers)
        if model is None and self.has_model:
            raise BadMessage(f"no {self._places['model']!r}, which names the model")
        if version is None and self.has_version:
            raise BadMessage(f"no {self._places['version']!r}, which names the version")
        return LaneName(model or "", version or "")

    def of_label(self, find: Find, message: Any, headers: Headers) -> Names:
        """Model and version that a label's opened message names, None where it does not.

        Raises
        ------
        BadMessage
            A name is empty, too long, or neither text, integer nor boolean.
        """
        if self._plain is None:
            return self._read(find, message, headers)
        text = tuple(
            [None if (raw := find(message, at)) is None else bytes(raw) for at in self._plain]
        )
        found = self._known.get(text)
        if found is None:
            found = self._read(find, message, headers)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[text] = found
        return found

    def _read(self, find: Find, message: Any, headers: Headers) -> Names:
        given, fault = self._columns.read(find, message, headers)
        if fault is not None:
            raise BadMessage(fault.removesuffix("; not given"))
        found = dict(zip(self._places, given, strict=True))
        for what, name in found.items():
            if name == "" or len(name or "") > LONGEST:
                says = "empty" if name == "" else f"{len(name or '')} characters"
                raise BadMessage(f"{self._places[what]}: {says}, expected the name of a {what}")
        return found.get("model"), found.get("version")
