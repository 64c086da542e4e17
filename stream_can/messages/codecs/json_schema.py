"""JSON objects behind the number of a schema, as the JSON serializers of a registry write them.

Whether a message keeps to its schema is not looked at: who wrote it has done so. The schema of an
answer is that of its input with the added fields among the properties.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.messages.codecs.codec import ASKED
from stream_can.messages.codecs.framing import GUID_HEADER, Key, Schemas, SchemaText, shown
from stream_can.messages.codecs.json import JsonCodec
from stream_can.messages.forms import BadMessage

if TYPE_CHECKING:
    from stream_can.messages.codecs.codec import Prediction
    from stream_can.messages.records import Headers

__all__ = ["JsonSchemaCodec", "output_schema"]


class Framed(dict[str, Any]):
    """The fields of an object, and what it calls its schema by."""

    key: Key


class JsonSchemaCodec(JsonCodec):
    """JSON objects whose schemas come from a registry.

    Parameters
    ----------
    schemas
        Where schemas come from, and where those of outputs go.
    probs
        Where the probabilities are.
    raw
        The field that keeps the original; empty: none does.
    asks
        Whether answers say that their label is asked for.
    """

    dropped = frozenset({GUID_HEADER})

    def __init__(
        self, schemas: Schemas, probs: str = "probs", raw: str = "probs_raw", *, asks: bool = False
    ) -> None:
        self.schemas, self._probs, self._raw, self._asks = schemas, probs.split("."), raw, asks
        self._heads: dict[Key, bytes] = {}

    def key(self, value: bytes, headers: Headers) -> Key | None:
        """The number or GUID."""
        return self.schemas.key(value, headers)[0]

    def prepare(self, value: bytes, headers: Headers, *, answered: bool) -> None:
        """Prepare a message; one that is not answered needs no schema."""
        if answered:
            self._head(self.schemas.key(value, headers)[0])

    def answer(self, schema: SchemaText) -> SchemaText:
        """With the added properties."""
        if schema.kind != "JSON":
            raise BadMessage(f"of kind {schema.kind}, expected JSON")
        return output_schema(schema, self._probs, self._raw, asks=self._asks)

    def open(self, value: bytes, headers: Headers = ()) -> Framed:
        """The fields of the object behind the schema's number."""
        key, start = self.schemas.key(value, headers)
        opened = Framed(super().open(value[start:]))
        opened.key = key
        return opened

    def probs(self, message: dict[str, Any], path: Sequence[str], *, answered: bool) -> Raw | None:
        """As in JSON, where the answer's schema is known."""
        found = super().probs(message, path, answered=answered)
        if answered and found is not None:
            assert isinstance(message, Framed)
            self._head(message.key)
        return found

    def _head(self, key: Key) -> bytes:
        head = self._heads.get(key)
        if head is None:
            schema = self.schemas.schema(key)
            try:
                made = self.answer(schema)
            except BadMessage as error:
                raise BadMessage(f"schema {shown(key)}: {error}") from None
            head = self._heads[key] = self.schemas.head(made)
        return head

    def write_all(
        self,
        predictions: Sequence[Prediction],
        rows: NDArray[np.float64],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """The objects with their rows, each behind the number of its answer's schema."""
        written = super().write_all(predictions, rows, path, raw)
        return [
            self._head(prediction.message.key) + value
            for prediction, value in zip(predictions, written, strict=True)
        ]

    def show(self, value: bytes, headers: Headers = ()) -> Raw:
        """The object without the number of its schema."""
        return Raw(value[self.schemas.key(value, headers)[1] :])

    def write_label(self, values: dict[str, Any]) -> bytes:
        """An object of the values, behind the number of the newest schema."""
        return self.schemas.newest()[0] + super().write_label(values)


def output_schema(schema: SchemaText, probs: Sequence[str], raw: str, *, asks: bool) -> SchemaText:
    """The JSON Schema of the answers to objects of a schema.

    What the schema says of the probabilities, the original beside them keeps to as well. Where it
    says nothing of them, nothing is added.
    """
    try:
        document = json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise BadMessage(str(error)) from None
    inner: Any = document
    for name in probs[:-1]:
        inner = _properties(document, inner).get(name)
    own = _properties(document, inner)
    if raw and probs[-1] in own:
        own.setdefault(raw, copy.deepcopy(own[probs[-1]]))
    if asks and (top := _properties(document, document)):
        top.setdefault(ASKED, {"type": "string"})
    return schema._replace(text=json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def _properties(document: Any, inner: Any) -> dict[str, Any]:
    """The properties of an object's schema, which may stand elsewhere in the document."""
    for _ in range(100):
        if not isinstance(inner, dict) or not isinstance(at := inner.get("$ref"), str):
            break
        if not at.startswith("#/"):
            return {}
        inner = document
        for name in at[2:].split("/"):
            inner = inner.get(name.replace("~1", "/").replace("~0", "~")) if inner else None
    found = inner.get("properties") if isinstance(inner, dict) else None
    return found if isinstance(found, dict) else {}
