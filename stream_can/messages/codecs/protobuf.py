"""Protobuf messages of one type of a descriptor set.

An answer is the same message with new numbers for the probabilities, and the added fields: the raw
probabilities, the reason of a label request, and the names in a set. All are optional, so readers
of the input's type can read answers and the other way round. Fields unknown to the descriptor set
are kept.

The probabilities are repeated double or float, a map from string to double or float, a message with
such a field for each class, repeated messages of label and score, or with two classes one number.
Several labels are repeated strings, enums or integers, or a map from string to bool.

In fields without presence, the number 0, an enum's first symbol and false are values, because they
cannot be told from absence, and so are no repeated labels; empty strings and messages count as
absent.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
import numpy as np
from google.protobuf import json_format  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from msgspec import Raw
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.errors import UnknownClass
from stream_can.messages.codecs.codec import ASKED, DECISION, SET
from stream_can.messages.codecs.framing import (
    GUID,
    GUID_HEADER,
    Key,
    SchemaCodec,
    Schemas,
    SchemaText,
)
from stream_can.messages.codecs.proto_files import messages_of
from stream_can.messages.codecs.proto_indexes import indexes_bytes, read_indexes
from stream_can.messages.codecs.proto_shapes import (
    Entries,
    NumberMap,
    NumberMessage,
    Numbers,
    Other,
    Place,
    Scalar,
    place_at,
    require_shape,
)
from stream_can.messages.codecs.proto_source import source
from stream_can.messages.codecs.proto_types import output_types
from stream_can.messages.codecs.proto_values import FieldValue, decode, fill, put_probs
from stream_can.messages.columns import header_bytes
from stream_can.messages.probability_formats import BadMessage, Form, Forms, Largest
from stream_can.method.class_names import json_name

if TYPE_CHECKING:
    from stream_can.messages.codecs.codec import Prediction
    from stream_can.messages.records import Headers

    Row = array[float]

_write = msgspec.json.Encoder().encode


EMPTY = ("", b"")
"""JSON texts that mean absence in a field without presence."""


class Opened(msgspec.Struct, gc=False):
    """A parsed message."""

    key: Key | None
    message: Any


class ProtobufCodec(SchemaCodec):
    """Messages of one type of a descriptor set, with or without a schema prefix.

    The schema that the registry has for a prefix is not compared with the descriptor set; only the
    prefix's message indexes must match.

    Parameters
    ----------
    schemas
        Registers schemas of answers; None where messages have no prefix.
    descriptor
        A FileDescriptorSet, as ``protoc --include_imports -o`` writes it, or its path.
    message
        Full name of the message type.
    probs, raw, asks, sets, decides
        As for `SchemaCodec`.
    first_field
        Number of the first added field.

    Raises
    ------
    ValueError
        As for :func:`output_types`, or the file cannot be read.
    """

    kind = "PROTOBUF"

    def __init__(
        self,
        schemas: Schemas | None,
        descriptor: bytes | str | PathLike[str],
        message: str,
        *fields: str,
        first_field: int = 20001,
        **options: Any,
    ) -> None:
        super().__init__(schemas, *fields, **options)
        self._name = message
        path = None if isinstance(descriptor, bytes) else fspath(descriptor)
        try:
            data = descriptor if isinstance(descriptor, bytes) else snapshot.read(descriptor)
            self._types = output_types(data, message, self._added, first_field)
        except OSError as error:
            raise ValueError(f"protobuf_descriptor: {path}: {error.strerror}") from None
        except ValueError as error:
            at = "" if path is None else f"{path}: "
            raise ValueError(f"protobuf_descriptor: {at}{error}") from None
        self._make, self._top = self._types.make, self._types.make.DESCRIPTOR
        self._indexes = indexes_bytes(self._types.indexes)
        self._places: dict[tuple[str, ...], Place | None] = {}

    def _answer(self, schema: SchemaText) -> SchemaText:
        """The descriptor set's file with the added fields, written like the schema: as .proto text,
        or a descriptor in base64. Its imports are the schema's."""
        try:
            base64.b64decode(schema.text, validate=True)
        except ValueError:
            return schema._replace(text=source(self._types.file))
        file = self._types.file.SerializeToString()
        return schema._replace(text=base64.b64encode(file).decode())

    def open(self, value: bytes, headers: Headers = ()) -> Opened:
        """Parse a message."""
        key, start = self._begin(value, headers)
        message = self._make()
        try:
            message.ParseFromString(value[start:] if start else value)
        except (DecodeError, UnicodeDecodeError) as error:
            raise BadMessage(f"no message {self._name}: {error}") from None
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise BadMessage(f"no message {self._name}: without the required {missing}")
        return Opened(key, message)

    def _begin(self, value: bytes, headers: Headers) -> tuple[Key | None, int]:
        """Key of a message's schema, and where its content begins; BadMessage for another message
        of the file."""
        if self.schemas is None:
            return None, 0
        key, start = self.schemas.key(value, headers)
        if isinstance(key, UUID):
            guid = header_bytes(headers, GUID_HEADER)
            assert guid is not None
            self._require_indexes(guid, GUID)
            return key, start
        if value.startswith(self._indexes, start):
            return key, start + len(self._indexes)
        return key, self._require_indexes(value, start)

    def _require_indexes(self, data: bytes, start: int) -> int:
        """Position after the message indexes, which must be those of our message."""
        indexes, end = read_indexes(data, start)
        if indexes != self._types.indexes:
            received, expected = list(indexes), list(self._types.indexes)
            names = {at: name for name, at in messages_of(self._types.file)}
            other = names.get(indexes, f"one that {self._types.file.name} does not have")
            raise BadMessage(
                f"message indexes {received}: {other}, expected {self._name}, which has {expected}"
            )
        return end

    def _locate(self, message: Opened, path: Sequence[str]) -> FieldValue | None:
        path = tuple(path)
        try:
            place = self._places[path]
        except KeyError:
            place = self._places[path] = place_at(self._top, path)
        if place is None:
            return None
        holder = message.message
        for name in place.parents:
            if not holder.HasField(name):
                return None
            holder = getattr(holder, name)
        if place.presence and not holder.HasField(place.name):
            return None
        value = getattr(holder, place.name)
        shape = place.shape
        is_value = (
            place.presence
            or value
            or (isinstance(shape, Scalar) and value not in EMPTY)
            or (isinstance(shape, Other) and shape.label is not None and shape.repeated)
        )
        return FieldValue(holder, place, value) if is_value else None

    def find(self, message: Opened, path: Sequence[str]) -> Raw | None:
        """JSON text of the value at a path; empty for a message, and for a repeated field or map of
        other things than labels."""
        field = self._locate(message, path)
        if field is None:
            return None
        shape = field.place.shape
        if isinstance(shape, Scalar):
            return Raw(_write(shape.value(field.value)))
        if isinstance(shape, Other) and shape.label is not None:
            return Raw(_write(decode(field)))
        is_array = isinstance(shape, Numbers | Entries) or getattr(shape, "repeated", False)
        return Raw(b"[]" if is_array else b"{}")

    def probs(self, message: Opened, path: Sequence[str], *, answered: bool) -> FieldValue | None:
        """Find the probabilities; the raw ones are kept where the message is answered."""
        field = self._locate(message, path)
        if field is None or not answered:
            return field
        self._head(message.key)
        raw = self._added.raw
        if raw:
            top = message.message
            top.ClearField(raw)
            if isinstance(field.place.shape, Scalar):
                setattr(top, raw, field.value)
            elif isinstance(field.place.shape, NumberMap):
                getattr(top, raw).update(decode(field))
            else:
                getattr(top, raw).MergeFrom(field.value)
        return field

    def row(self, original: FieldValue, forms: Forms, where: str) -> tuple[Row, Form | None]:
        """Numbers of the shapes."""
        shape = original.place.shape
        if isinstance(shape, Numbers):
            row = array("d", original.value[:])
            if len(row) != forms.m:
                raise BadMessage(f"{where}: {len(row)} probabilities for {forms.m} classes")
            return row, None
        require_shape(shape, where)
        try:
            numbers, form = forms.parse(decode(original))
            if isinstance(shape, NumberMessage) and isinstance(form, Largest):
                raise BadMessage(f"a message with {form.k} fields for {forms.m} classes")
            if isinstance(shape, Entries) and isinstance(form, Largest):
                missing = shape.lacks(form.names)
                if missing is not None:
                    raise BadMessage(f"class {missing!r} cannot be a label: {shape.label.called}")
        except (BadMessage, UnknownClass) as error:
            raise type(error)(f"{where}: {error}") from None
        return array("d", numbers), form

    def names(self, message: Opened, path: Sequence[str]) -> list[Any] | None:
        """Keys of a map, fields of a message, labels of entries."""
        field = self._locate(message, path)
        if field is None or not isinstance(field.place.shape, NumberMap | NumberMessage | Entries):
            return None
        probs = decode(field)
        return [entry.label for entry in probs] if isinstance(probs, list) else list(probs)

    def write_all(
        self,
        predictions: Sequence[Prediction],
        rows: NDArray[np.float64],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """The messages with new numbers; map entries are sorted by key, so that equal messages have
        equal bytes."""
        out, added = [], self._added
        for prediction, row in zip(predictions, rows.tolist(), strict=True):
            opened, field = prediction.message, prediction.original
            put_probs(field, prediction.form, row)
            if added.asks:
                opened.message.ClearField(ASKED)
                if prediction.ask_reason is not None:
                    setattr(opened.message, ASKED, prediction.ask_reason)
            if added.sets:
                opened.message.ClearField(SET)
                getattr(opened.message, SET).extend(map(json_name, prediction.set or ()))
            if added.decides:
                opened.message.ClearField(DECISION)
                if prediction.decision is not None:
                    setattr(opened.message, DECISION, prediction.decision)
            written = opened.message.SerializeToString(deterministic=True)
            out.append(self._head(opened.key) + written)
        return out

    def show(self, value: bytes, headers: Headers = ()) -> Raw:
        """A message as Protobuf's JSON, with original field names."""
        try:
            text = json_format.MessageToJson(
                self.open(value, headers).message,
                preserving_proto_field_name=True,
                indent=None,
                ensure_ascii=False,
                descriptor_pool=self._types.pool,
            )
        except BadMessage:
            raise
        except Exception as error:  # an Any of unknown type, a time out of range, ...
            raise BadMessage(f"message {self._name} as JSON: {error}") from None
        return Raw(text.encode(errors="replace"))

    def write_label(self, values: dict[str, Any]) -> bytes:
        """A message with those values for which it has fields."""
        head = b"" if self.schemas is None else self.schemas.newest()[0] + self._indexes
        message = self._make()
        try:
            fill(message, values)
            return head + bytes(message.SerializeToString(deterministic=True))
        except (ValueError, TypeError, AttributeError, EncodeError) as error:
            raise BadMessage(f"a label as message {self._name}: {error}") from None
