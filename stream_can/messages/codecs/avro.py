"""Avro records, in which only the bytes of the probabilities change.

Values are found by walking a record along its schema; nothing else is decoded. An answer has the
same bytes with new numbers for the probabilities, followed by the added fields: the raw
probabilities, the reason of a label request, the names in a set, and the decision. Each may be
null and is by default, so readers of the input's schema can read answers and the other way round.

The probabilities are an array or map of float or double, an array of records of label and score, a
record with a field for each class, or with two classes one number; they may be nullable, but not
null. Several labels are an array of strings, enums or integers, or a map of booleans.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import fastavro
import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.messages.codecs.avro_answers import output_schema
from stream_can.messages.codecs.avro_program import Path, Program, in_union, program_of
from stream_can.messages.codecs.avro_types import (
    AvroEntries,
    AvroLabels,
    AvroNumberMap,
    AvroNumbers,
    AvroScalar,
    AvroSchemaError,
    NumberRecord,
)
from stream_can.messages.codecs.avro_values import (
    AvroSpan,
    block_bytes,
    decode_probs,
    place_probs,
    read_labels,
    require_symbols,
    text_bytes,
)
from stream_can.messages.codecs.framing import Key, SchemaCodec, SchemaText, shown
from stream_can.messages.codecs.walk import read_numbers
from stream_can.messages.probability_formats import BadMessage, Form, Forms, Largest
from stream_can.method.class_names import json_name

if TYPE_CHECKING:
    from stream_can.messages.codecs.codec import Prediction
    from stream_can.messages.records import Headers

    Row = array[float]

_write = msgspec.json.Encoder(enc_hook=str).encode


class AvroOpened(msgspec.Struct, gc=False):
    """A walked record."""

    key: Key
    data: bytes
    start: int
    """Start of the record, after the prefix that names its schema."""
    program: Program
    spans: Any


class AvroCodec(SchemaCodec):
    """Avro records whose schemas come from a registry or a file; parameters as for
    `SchemaCodec`."""

    kind = "AVRO"

    def __init__(self, *fields: Any, **options: Any) -> None:
        super().__init__(*fields, **options)
        self._slots: dict[Path, int] = {}
        self._schema_of: dict[Key, SchemaText] = {}
        self._programs: dict[Key, Program | AvroSchemaError] = {}

    def _slot(self, path: Sequence[str]) -> int:
        """Number of a path; a new one makes schemas compile again."""
        slot = self._slots.get(path := tuple(path))
        if slot is None:
            slot = self._slots[path] = len(self._slots)
        return slot

    def _program(self, key: Key) -> Program:
        program = self._programs.get(key)
        if program is None or (isinstance(program, Program) and program.slots < len(self._slots)):
            if key not in self._schema_of:
                self._schema_of[key] = self.schemas.schema(key)
            schema = self._schema_of[key]
            try:
                if schema.kind != "AVRO":
                    raise AvroSchemaError(f"of kind {schema.kind}, expected AVRO")
                program = program_of(schema, dict(self._slots))
            except AvroSchemaError as error:
                program = error
            self._programs[key] = program
        if isinstance(program, AvroSchemaError):
            raise AvroSchemaError(f"schema {shown(key)}: {program}")
        return program

    def prepare(self, value: bytes, headers: Headers, *, answered: bool) -> None:
        """Look up the schema, once."""
        self._program(self.schemas.key(value, headers)[0])
        super().prepare(value, headers, answered=answered)

    def _answer(self, schema: SchemaText) -> SchemaText:
        return output_schema(schema, self._added)

    def open(self, value: bytes, headers: Headers = ()) -> AvroOpened:
        """Walk a record."""
        key, start = self.schemas.key(value, headers)
        program = self._program(key)
        try:
            spans = program.walker.walk(value, start)
        except ValueError as error:
            raise BadMessage(f"no record of schema {shown(key)}: {error}") from None
        return AvroOpened(key, value, start, program, spans)

    def _span(self, message: AvroOpened, path: Sequence[str]) -> AvroSpan | None:
        slot = self._slot(path)
        if slot >= message.program.slots:  # a new path
            program = message.program = self._program(message.key)
            message.spans = program.walker.walk(message.data, message.start)
        start, end, type_ = message.spans[3 * slot : 3 * slot + 3]
        if type_ < 0:
            return None
        return AvroSpan(message.data, start, end, message.program.types[type_])

    def find(self, message: AvroOpened, path: Sequence[str]) -> Raw | None:
        """JSON text of the value at a path; empty for a record, and for an array or map of other
        things than labels."""
        span = self._span(message, path)
        if span is None:
            return None
        data, start, end, type_ = span
        if isinstance(type_, AvroScalar):
            return Raw(_write(type_.value(data, start, end)))
        if isinstance(type_, AvroLabels):
            return Raw(_write(read_labels(span)))
        is_array = isinstance(type_, AvroNumbers | AvroEntries) or "array" in getattr(
            type_, "description", ""
        )
        return Raw(b"[]" if is_array else b"{}")

    def probs(self, message: AvroOpened, path: Sequence[str], *, answered: bool) -> AvroSpan | None:
        """Find the probabilities."""
        span = self._span(message, path)
        if span is None:
            return None
        if isinstance(span.type, AvroScalar) and span.type.kind == "null":
            if answered:
                raise BadMessage(f"{'.'.join(path)}: null")
            return None
        if answered:
            self._head(message.key)
        return span

    def row(self, original: AvroSpan, forms: Forms, where: str) -> tuple[Row, Form | None]:
        """Numbers of the four shapes, or a single number."""
        data, start, end, type_ = original
        if isinstance(type_, AvroNumbers):
            row = read_numbers(data, start, end, type_.width)
            if len(row) != forms.m:
                raise BadMessage(f"{where}: {len(row)} probabilities for {forms.m} classes")
            return row, None
        try:
            numbers, form = forms.parse(decode_probs(original))
            if isinstance(type_, NumberRecord) and isinstance(form, Largest):
                raise BadMessage(f"a record with {form.k} fields for {forms.m} classes")
            if isinstance(type_, AvroEntries) and type_.label.kind == "enum":
                require_symbols(type_.label, form)
        except (BadMessage, UnknownClass) as error:
            raise type(error)(f"{where}: {error}") from None
        return array("d", numbers), form

    def names(self, message: AvroOpened, path: Sequence[str]) -> list[Any] | None:
        """Keys of a map, fields of a record, labels of entries."""
        span = self._span(message, path)
        if span is None or not isinstance(span.type, AvroNumberMap | NumberRecord | AvroEntries):
            return None
        probs = decode_probs(span)
        return [entry.label for entry in probs] if isinstance(probs, list) else list(probs)

    def write_all(
        self,
        predictions: Sequence[Prediction],
        rows: NDArray[np.float64],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """The records with new numbers, followed by the added fields."""
        out, added = [], self._added
        for prediction, row in zip(predictions, rows, strict=True):
            message, span = prediction.message, prediction.original
            data, start, end, _ = span
            tail = [b"\x02", data[start:end]] if raw else []
            if added.asks:
                reason = prediction.ask_reason
                tail.append(b"\x00" if reason is None else b"\x02" + text_bytes(reason))
            if added.sets:
                names = prediction.set
                texts = None if names is None else [text_bytes(json_name(name)) for name in names]
                tail.append(b"\x00" if texts is None else b"\x02" + block_bytes(texts))
            if added.decides:
                action = prediction.decision
                tail.append(b"\x00" if action is None else b"\x02" + text_bytes(action))
            placed = place_probs(span, prediction.form, row)
            head, begin = self._head(message.key), message.start
            out.append(b"".join((head, data[begin:start], placed, data[end:], *tail)))
        return out

    def show(self, value: bytes, headers: Headers = ()) -> Raw:
        """A record as JSON: bytes in base64, logical types as text."""
        key, start = self.schemas.key(value, headers)
        self._program(key)
        texts, first = in_union(self._schema_of[key])
        record = io.BytesIO(first + value[start:])
        return Raw(_write(fastavro.schemaless_reader(record, texts, None)))

    def write_label(self, values: dict[str, Any]) -> bytes:
        """A record of the newest schema, with those values for which it has fields."""
        head, schema = self.schemas.newest()
        program, record = program_of(schema), io.BytesIO()
        texts, first = in_union(schema)
        try:
            label_values = program.fitted(program.top, values)
            fastavro.schemaless_writer(record, texts, label_values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadMessage(f"a label of the newest schema: {error}") from None
        return bytes(head + record.getvalue()[len(first) :])
