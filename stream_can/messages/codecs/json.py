"""JSON objects, in which everything but the probabilities keeps its bytes.

Of a repeated key the last one counts, as in every common JSON parser; it is written once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.messages.codecs.codec import ASKED, DECISION, REST, SET
from stream_can.messages.counting import elements
from stream_can.messages.faults import UNREADABLE, json_fault, object_fault, probs_fault
from stream_can.messages.numbers import array_texts, read_array
from stream_can.messages.probability_formats import BadMessage, Form, Forms, LabelScore
from stream_can.messages.sparse_formats import Listed, ListedForms

if TYPE_CHECKING:
    from stream_can.messages.codecs.codec import Prediction
    from stream_can.messages.codecs.framing import Key, SchemaText
    from stream_can.messages.records import Headers

    Row = array[float]

_read_object = msgspec.json.Decoder(dict[str, Raw]).decode
_read_probs = msgspec.json.Decoder(list[float] | dict[str, float] | float).decode
_read_entries = msgspec.json.Decoder(list[LabelScore]).decode
_write = msgspec.json.Encoder().encode
_read_any = msgspec.json.Decoder().decode
OBJECT = (
    '; put the list into one: {"id": ..., "probs": [...]}; several messages go one a line or record'
)
NESTED = "; a list of rows: a message has one row, so give its first"
"""Advice for common outputs of classifiers."""
MANY = 10_000
"""Probabilities of a row, or names of a label, beyond its classes that are read."""


def _fault(text: Raw) -> str:
    """What is wrong with probabilities that are in none of the forms."""
    try:
        fault = probs_fault(_read_any(text))
    except UNREADABLE:
        return json_fault(bytes(text))
    nested = bytes(text).replace(b" ", b"")[:2] == b"[["
    return f"{fault}{NESTED if nested else ''}"


class JsonCodec:
    """JSON objects; an opened message is a dict of fields whose values are still text."""

    dropped: frozenset[str] = frozenset()
    sets = False

    def key(self, value: bytes, headers: Headers) -> Key | None:
        """Return None: there are no schemas."""
        return None

    def prepare(self, value: bytes, headers: Headers, *, answered: bool) -> None:
        """Do nothing."""

    def answer(self, schema: SchemaText) -> SchemaText:
        """Return the schema unchanged."""
        return schema

    def open(self, value: bytes, headers: Headers = ()) -> dict[str, Any]:
        """Fields of a JSON object, values as text; BadMessage where it is none."""
        try:
            if not value.isascii():
                value.decode()  # msgspec does not check bytes inside strings, and would send them
            return _read_object(value)
        except UNREADABLE:
            hint = OBJECT if value[:1] == b"[" else ""
            raise BadMessage(f"not a JSON object: {object_fault(value)}{hint}") from None

    @staticmethod
    def find(message: dict[str, Any], path: Sequence[str]) -> Any:
        """Text of the value at a path; None without one."""
        value: Any = message.get(path[0])
        if len(path) == 1:
            return value
        for name in path[1:]:
            if type(value) is Raw:
                try:
                    value = _read_object(value)
                except UNREADABLE:
                    return None
            if value is None:
                return None
            value = value.get(name)
        return value

    def probs(self, message: dict[str, Any], path: Sequence[str], *, answered: bool) -> Raw | None:
        """Text of the probabilities; the enclosing objects are opened too."""
        inner = message
        if len(path) > 1:
            for name in path[:-1]:
                inside = inner.get(name)
                if inside is None:
                    return None
                if type(inside) is Raw:
                    try:
                        inside = inner[name] = _read_object(inside)
                    except UNREADABLE:
                        if not answered:
                            return None
                        fault = object_fault(bytes(inner[name]))
                        raise BadMessage(f"{'.'.join(path)}: at {name!r}: {fault}") from None
                inner = inside
        probs: Raw | None = inner.get(path[-1])
        if answered or probs is None:
            return probs
        return None if bytes(probs) == b"null" else probs

    def row(self, original: Raw, forms: Forms, where: str) -> tuple[Row, Form | None]:
        """Parse a row; compiled code parses a plain array."""
        if (row := read_array(original, forms.m)) is not None:
            return row, None
        numbers, form = self._parse(original, forms, where)
        return array("d", numbers), form

    def sparse_row(
        self, original: Raw, forms: ListedForms, where: str
    ) -> tuple[dict[Any, float], Listed]:
        """Parse the likeliest classes, by class."""
        parsed: tuple[dict[Any, float], Listed] = self._parse(original, forms, where)
        return parsed

    def _parse(self, original: Raw, forms: Forms | ListedForms, where: str) -> Any:
        most = forms.m + MANY
        if elements(original, most) > most:  # before an object is made of each
            raise BadMessage(f"{where}: over {most:,} probabilities")
        try:
            probs = _read_probs(original)
        except UNREADABLE:
            try:
                probs = _read_entries(original)
            except UNREADABLE:
                raise BadMessage(f"{where}: {_fault(original)}") from None
        try:
            return forms.parse(probs)
        except (BadMessage, UnknownClass) as error:
            raise type(error)(f"{where}: {error}") from None

    def names(self, message: dict[str, Any], path: Sequence[str]) -> list[Any] | None:
        """Keys of an object, labels of a list of label and score."""
        text = self.find(message, path)
        for read in (_read_probs, _read_entries):
            try:
                probs = read(text)
            except (TypeError, *UNREADABLE):
                continue
            if isinstance(probs, dict):
                return list(probs)
            if isinstance(probs, list) and all(isinstance(entry, LabelScore) for entry in probs):
                return [entry.label for entry in probs]
        return None

    def raw_path(self, path: Sequence[str], raw: str) -> list[str]:
        """Beside the probabilities."""
        return [*path[:-1], raw]

    def write_all(
        self,
        predictions: Sequence[Prediction],
        rows: NDArray[np.float64],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """The objects with their rows; ``rows`` must be finite, since JSON has no NaN."""
        (*parents, name), out = path, []
        for i, (prediction, text) in enumerate(zip(predictions, array_texts(rows), strict=True)):
            message, form = prediction.message, prediction.form
            if prediction.ask_reason is not None:
                message[ASKED] = prediction.ask_reason
            if prediction.set is not None:
                message[SET] = prediction.set
            if prediction.decision is not None:
                message[DECISION] = prediction.decision
            inner = message
            for parent in parents:
                inner = inner[parent]
            inner[name] = Raw(text) if form is None else form.of(rows[i].tolist())
            if raw:
                inner[raw] = prediction.original
            out.append(_write(message))
        return out

    def write_sparse(
        self,
        predictions: Sequence[Prediction],
        rows: Sequence[tuple[dict[Any, float], float]],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """The objects with rows of the likeliest classes, and the rest beside them."""
        (*parents, name), out = path, []
        for prediction, (row, remainder) in zip(predictions, rows, strict=True):
            inner = prediction.message
            if prediction.ask_reason is not None:
                inner[ASKED] = prediction.ask_reason
            for parent in parents:
                inner = inner[parent]
            assert prediction.form is not None
            inner[name], inner[REST] = prediction.form.of(row), remainder
            if raw:
                inner[raw] = prediction.original
            out.append(_write(prediction.message))
        return out

    def show(self, value: bytes, headers: Headers = ()) -> Raw:
        """Return the text unchanged."""
        return Raw(value)

    def write_label(self, values: dict[str, Any]) -> bytes:
        """An object of the values."""
        return _write(values)
