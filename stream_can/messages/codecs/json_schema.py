"""JSON objects preceded by a schema's number, as a registry's JSON serializers write them.

Messages are not validated against their schema; the writer has done so. The schema of answers is
the input's with the added fields among the properties.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.messages.codecs.codec import ASKED, DECISION, SET
from stream_can.messages.codecs.framing import AnswerFields, Key, SchemaCodec, SchemaText
from stream_can.messages.codecs.json import JsonCodec
from stream_can.messages.probability_formats import BadMessage

if TYPE_CHECKING:
    from stream_can.messages.codecs.codec import Prediction
    from stream_can.messages.records import Headers


class Framed(dict[str, Any]):
    """Fields of an object, and the key of its schema."""

    key: Key


class JsonSchemaCodec(SchemaCodec, JsonCodec):
    """JSON objects whose schemas come from a registry; parameters as for `SchemaCodec`."""

    kind = "JSON"
    raw_path = JsonCodec.raw_path

    def _answer(self, schema: SchemaText) -> SchemaText:
        return output_schema(schema, self._added)

    def open(self, value: bytes, headers: Headers = ()) -> Framed:
        """Fields of the object after the prefix."""
        key, start = self.schemas.key(value, headers)
        opened = Framed(super().open(value[start:]))
        opened.key = key
        return opened

    def probs(self, message: dict[str, Any], path: Sequence[str], *, answered: bool) -> Raw | None:
        """As for JSON; the answer's schema must be known."""
        original = super().probs(message, path, answered=answered)
        if answered and original is not None:
            assert isinstance(message, Framed)
            self._head(message.key)
        return original

    def write_all(
        self,
        predictions: Sequence[Prediction],
        rows: NDArray[np.float64],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """The objects with their rows, each preceded by the number of its answer's schema."""
        if not self.sets:  # the schema has no field for them
            for prediction in predictions:
                prediction.set = None
        written = super().write_all(predictions, rows, path, raw)
        return [
            self._head(prediction.message.key) + value
            for prediction, value in zip(predictions, written, strict=True)
        ]

    def show(self, value: bytes, headers: Headers = ()) -> Raw:
        """The object without its prefix."""
        return Raw(value[self.schemas.key(value, headers)[1] :])

    def write_label(self, values: dict[str, Any]) -> bytes:
        """An object of the values, preceded by the number of the newest schema."""
        return bytes(self.schemas.newest()[0] + super().write_label(values))


def output_schema(schema: SchemaText, added: AnswerFields) -> SchemaText:
    """JSON Schema of the answers to objects of a schema.

    The raw probabilities have the schema of the probabilities. Where that is not given, nothing is
    added.
    """
    try:
        document = json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise BadMessage(str(error)) from None
    inner: Any = document
    for name in added.probs[:-1]:
        inner = _properties(document, inner).get(name)
    properties = _properties(document, inner)
    if added.raw and added.probs[-1] in properties:
        properties.setdefault(added.raw, copy.deepcopy(properties[added.probs[-1]]))
    if top := _properties(document, document):
        if added.asks:
            top.setdefault(ASKED, {"type": "string"})
        if added.sets:
            top.setdefault(SET, {"type": "array", "items": {"type": ["string", "number"]}})
        if added.decides:
            top.setdefault(DECISION, {"type": "string"})
    return schema._replace(text=json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def _properties(document: Any, inner: Any) -> dict[str, Any]:
    """Properties of an object's schema, which may be a reference into the document."""
    for _ in range(100):
        if not isinstance(inner, dict) or not isinstance(at := inner.get("$ref"), str):
            break
        if not at.startswith("#/"):
            return {}
        inner = document
        for name in at[2:].split("/"):
            inner = inner.get(name.replace("~1", "/").replace("~0", "~")) if inner else None
    properties = inner.get("properties") if isinstance(inner, dict) else None
    return properties if isinstance(properties, dict) else {}
