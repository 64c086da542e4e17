"""Which model and which version a message is of.

Both together name a lane: what corrects the predictions of one version of one model. Where neither
is looked for, there is one lane, which has no name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stream_can.stream.columns import Columns
from stream_can.stream.fields import Fields
from stream_can.stream.forms import BadMessage
from stream_can.stream.messages import Messages

if TYPE_CHECKING:
    from stream_can.stream.records import Headers

__all__ = ["UNNAMED", "LaneName", "Naming"]

LONGEST = 200
"""Characters of a name: it is part of keys, and stands in each entry of the lane."""


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
        self._places = {
            what: place
            for what in ("model", "version")
            if (place := getattr(fields, what)) is not None
        }
        self._columns = Columns(tuple(self._places.values()), {})

    def of_prediction(self, fields: dict[str, Any], headers: Headers) -> LaneName:
        """The lane of a prediction's opened message; BadMessage where a name is missing."""
        found = self.of_label(fields, headers)
        for what, place in self._places.items():
            if found[what] is None:
                raise BadMessage(f"no {place!r}, which names the {what}")
        return LaneName(found["model"] or "", found["version"] or "")

    def of_label(self, fields: dict[str, Any], headers: Headers) -> dict[str, str | None]:
        """What a label's opened message names: model and version, None where it does not.

        Raises
        ------
        BadMessage
            A name is empty, too long, or neither text, integer nor boolean.
        """
        given, fault = self._columns.read(Messages.find, fields, headers)
        if fault is not None:
            raise BadMessage(fault.removesuffix("; not given"))
        found: dict[str, str | None] = {"model": None, "version": None}
        for (what, place), name in zip(self._places.items(), given, strict=True):
            if name == "" or len(name or "") > LONGEST:
                says = "empty" if name == "" else f"{len(name or '')} characters"
                raise BadMessage(f"{place}: {says}, expected the name of a {what}")
            found[what] = name
        return found

    def looked_for(self, what: str) -> bool:
        """Whether "model" or "version" is in the messages."""
        return what in self._places
