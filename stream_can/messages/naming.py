"""Model and version of messages.

Together they name a lane: the corrector of one version of a model. Without these fields there is a
single lane without a name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stream_can.messages.columns import Columns
from stream_can.messages.fields import Fields
from stream_can.messages.probability_formats import BadMessage

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

Names = tuple[str | None, str | None]
"""Model and version, each None where not given."""
Find = Callable[[Any, Sequence[str]], Any]
"""Returns the JSON text of the value at a path of an opened message, or None."""

LONGEST = 200
"""Maximum length of a name: it is part of keys and of every entry of its lane."""
MOST_KNOWN = 10_000
"""Number of cached name texts."""


class LaneName(NamedTuple):
    """A model and its version; empty where not configured."""

    model: str
    version: str

    def __str__(self) -> str:
        return f"{self.model} {self.version}".strip()


UNNAMED = LaneName("", "")


class Naming:
    """Extracts model and version from messages.

    Parameters
    ----------
    fields
        Fields with at least one of ``model`` and ``version``.
    """

    def __init__(self, fields: Fields) -> None:
        self.has_model, self.has_version = fields.model is not None, fields.version is not None
        fields_by_part = {"model": fields.model, "version": fields.version}
        self._places = {part: place for part, place in fields_by_part.items() if place is not None}
        places = tuple(self._places.values())
        self._columns = Columns(places, {})
        # Fields at the top level: their texts repeat and are cached.
        plain = not any(c in place for place in places for c in ".:")
        self._plain = [[place] for place in places] if plain else None
        self._known: dict[tuple[Any, ...], Names] = {}

    def of_prediction(self, find: Find, message: Any, headers: Headers) -> LaneName:
        """Lane of a prediction's opened message; BadMessage where a name is missing."""
        model, version = self.of_label(find, message, headers)
        if model is None and self.has_model:
            raise BadMessage(f"no {self._places['model']!r}, which names the model")
        if version is None and self.has_version:
            raise BadMessage(f"no {self._places['version']!r}, which names the version")
        return LaneName(model or "", version or "")

    def of_label(self, find: Find, message: Any, headers: Headers) -> Names:
        """Model and version in a label's opened message, None where missing.

        Raises
        ------
        BadMessage
            A name is empty, too long, or not a text, integer or boolean.
        """
        if self._plain is None:
            return self._names_in(find, message, headers)
        text = tuple(
            [None if (raw := find(message, at)) is None else bytes(raw) for at in self._plain]
        )
        names = self._known.get(text)
        if names is None:
            names = self._names_in(find, message, headers)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[text] = names
        return names

    def _names_in(self, find: Find, message: Any, headers: Headers) -> Names:
        values, fault = self._columns.values_in(find, message, headers)
        if fault is not None:
            raise BadMessage(fault.removesuffix("; not given"))
        names = dict(zip(self._places, values, strict=True))
        for part, name in names.items():
            if name == "" or len(name or "") > LONGEST:
                length = "empty" if name == "" else f"{len(name or '')} characters"
                raise BadMessage(f"{self._places[part]}: {length}, expected the name of a {part}")
        return names.get("model"), names.get("version")
