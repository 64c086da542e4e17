"""Labels of messages: the class that one names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from stream_can.errors import UnknownClass
from stream_can.messages.codecs.codec import Row
from stream_can.messages.codecs.json import MANY
from stream_can.messages.columns import SegmentTexts
from stream_can.messages.counting import elements
from stream_can.messages.faults import UNREADABLE, json_fault
from stream_can.messages.fields import Fields
from stream_can.messages.probability_formats import BadMessage
from stream_can.method.classes import is_missing

__all__ = ["Label", "LabelParser", "NoLabel"]

LONG = 10_000
"""Bytes of a label beyond which it is bounded before it is read."""

_Name = str | int | float | bool | None
_read_any = msgspec.json.Decoder().decode
_read_flat = msgspec.json.Decoder(list[_Name] | dict[str, _Name] | _Name).decode


class NoLabel(BadMessage):
    """A message says, by `Fields.label_map`, that there is no label."""


class Label(msgspec.Struct, gc=False):
    """A parsed label message."""

    index: Any
    """Index of the class; of other kinds of rows the argument of `Learner.label`."""
    row: Row | None
    """The raw prediction that it echoes, if any."""
    id: bytes | None
    number: int = -1
    """Index among a batch's rows of the one that it carries; -1 without one."""
    segments: SegmentTexts | None = None
    """Values of the declared columns beside that row."""
    by_id: bool = False
    """Whether it names no model: then it teaches only with its prediction."""
    weight: float | None = None
    """How many labels it counts as; None: one."""


class LabelParser:
    """Parses the JSON text of a label.

    Parameters
    ----------
    fields
        Fields of the messages.
    n_classes
        Number of declared classes.
    index_of
        Converts a decoded label to `Label.index`; its second argument is the text.
    """

    def __init__(self, fields: Fields, n_classes: int, index_of: Callable[[Any, Raw], Any]) -> None:
        self._field, self._map = fields.label, fields.label_map
        self._most, self._index_of = n_classes + MANY, index_of

    def parse(self, text: Raw) -> Any:
        """Parse a label to `Label.index`; BadMessage, UnknownClass."""
        is_long = len(bytes(text)) > LONG  # its names are counted before an object is made of each
        if is_long and elements(text, self._most) > self._most:
            raise BadMessage(f"{self._field}: over {self._most:,} names")
        try:
            label = (_read_flat if is_long else _read_any)(text)
        except UNREADABLE:
            fault = "no name, nor a list of such" if is_long else json_fault(bytes(text))
            raise BadMessage(f"{self._field}: {fault}") from None
        return self._index_of(self._mapped(label) if self._map else label, text)

    def parse_optional(self, text: Raw | None) -> Any:
        """:meth:`parse`; None for a label that is missing, null or the text of a missing one."""
        if text is None or bytes(text) == b"null":
            return None
        try:
            return self.parse(text)
        except UnknownClass:
            label = _read_any(text)
            if isinstance(label, str) and is_missing(label):
                return None
            raise

    def _mapped(self, label: Any) -> Any:
        """What a label, or each of a list, stands for."""
        if isinstance(label, list):
            return [self._mapped(name) for name in label]
        text = label if isinstance(label, str) else msgspec.json.encode(label).decode()
        mapped = self._map.get(text, label)
        if mapped == "":
            raise NoLabel(f"{self._field}: {text} is no label")
        return mapped
