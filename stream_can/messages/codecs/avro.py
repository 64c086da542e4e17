"""Avro records, in which only the bytes of the probabilities change.

Values are found by walking a record along its schema; nothing else is decoded. An answer has the
same bytes with new numbers for the probabilities, followed by the added fields: the raw
probabilities, the reason of a label request, and the names in a set. Each may be null and is by
default, so readers of the input's schema can read answers and the other way round.

The probabilities are an array or map of float or double, an array of records of label and score, a
record with a field for each class, or with two classes one number; they may be nullable, but not
null. Several labels are an array of strings, enums or integers, or a map of booleans.
"""

from __future__ import annotations

import io
import json
import re
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import fastavro
import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.messages.codecs.codec import ASKED, SET
from stream_can.messages.codecs.framing import (
    Key,
    SchemaCodec,
    SchemaText,
    long_bytes,
    read_long,
    shown,
)
from stream_can.messages.codecs.walk import (
    Kind,
    Walker,
    place_map,
    place_numbers,
    read_map,
    read_numbers,
)
from stream_can.messages.forms import BadMessage, Form, Forms, LabelScore, Largest, Named
from stream_can.method.class_names import json_name

if TYPE_CHECKING:
    from stream_can.messages.codecs.codec import Prediction
    from stream_can.messages.records import Headers

    Row = array[float]

__all__ = ["AvroCodec", "AvroSchemaError", "output_schema"]

_is_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_write = msgspec.json.Encoder(enc_hook=str).encode

WIDTHS = {"float": 4, "double": 8}
FORMATS = {"float": "f", "double": "d"}
NUMBER = {4: struct.Struct("<f"), 8: struct.Struct("<d")}
SCALARS = {"null", "boolean", "int", "long", "float", "double", "string", "bytes"}
LARGEST_FIXED = 2**31 - 1
NAMES = ("record", "error", "enum", "fixed")
"""Types with names of their own."""

Path = tuple[str, ...]
Item = TypeVar("Item")


class AvroSchemaError(BadMessage):
    """Records of a schema cannot be read or answered."""


# ---- types


class AvroScalar(msgspec.Struct, frozen=True):
    """A value without parts."""

    kind: str
    symbols: tuple[str, ...] = ()
    """Symbols of an enum."""

    def value(self, data: bytes, start: int, end: int) -> Any:
        """The value as JSON; undecodable bytes are backslash-escaped."""
        match self.kind:
            case "null":
                return None
            case "boolean":
                return data[start] == 1
            case "int" | "long":
                return read_long(data, start)[0]
            case "float" | "double":
                return NUMBER[WIDTHS[self.kind]].unpack_from(data, start)[0]
            case "enum":
                return self.symbols[read_long(data, start)[0]]
            case "string" | "bytes":
                start = read_long(data, start)[1]
        return data[start:end].decode(errors="backslashreplace")


STRING = AvroScalar("string")


class AvroNumbers(msgspec.Struct, frozen=True):
    """An array of floats or doubles."""

    width: int


class AvroNumberMap(msgspec.Struct, frozen=True):
    """A map of floats or doubles."""

    width: int


class NumberRecord(msgspec.Struct, frozen=True):
    """A record whose fields are floats and doubles."""

    names: tuple[str, ...]
    layout: struct.Struct


class AvroEntries(msgspec.Struct, frozen=True):
    """An array of records of a label and a score."""

    label: AvroScalar
    width: int
    label_first: bool


class AvroOther(msgspec.Struct, frozen=True):
    """Any other type."""

    description: str


class AvroLabels(AvroOther, frozen=True):
    """An array of labels, or a map of booleans by label."""

    label: AvroScalar
    is_map: bool


Type = AvroScalar | AvroNumbers | AvroNumberMap | NumberRecord | AvroEntries | AvroOther


class AvroSpan(NamedTuple):
    """A value found in a message."""

    data: bytes
    start: int
    end: int
    type: Type


# ---- schemas


class Program:
    """A schema compiled for the walk.

    Parameters
    ----------
    schema, named
        Result of fastavro's ``parse_schema``, and its named types by full name.
    places
        Paths to be found, with the number of each one's slot.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any], places: Mapping[Path, int]) -> None:
        self.top, self._named, self._code = schema, named, array("i")
        self._at: dict[str, int] = {}
        self.types: list[Type] = []
        self.slots = len(places)
        self.walker = Walker(self._code, self._node(schema, places), self.slots)

    def _add(self, *numbers: int) -> int:
        at = len(self._code)
        self._code.extend(numbers)
        return at

    def _node(self, schema: Any, wants: Mapping[Path, int]) -> int:
        """Compile a type and return its position; ``wants`` are the paths wanted inside it."""
        if isinstance(schema, list):
            at = self._add(Kind.UNION, len(schema), *[0] * len(schema))
            for i, branch in enumerate(schema):
                self._code[at + 2 + i] = self._node(branch, wants)
            return at
        if () in wants:
            type_ = self._type(schema)
            rest = {path: slot for path, slot in wants.items() if path}
            child, slot = self._node(schema, rest), wants[()]
            self.types.append(type_)
            return self._add(Kind.CAPTURE, slot, len(self.types) - 1, child)
        kind = kind_of(schema)
        if kind in SCALARS:
            return self._scalar(kind)
        definition = self._definition(schema)
        name = str(definition.get("name", "")) if definition["type"] in NAMES else ""
        if name and not wants and name in self._at:
            return self._at[name]
        match definition["type"]:
            case "record" | "error":
                fields = definition["fields"]
                at = self._add(Kind.RECORD, len(fields), *[0] * len(fields))
                if not wants:
                    self._at[name] = at
                for i, field in enumerate(fields):
                    inside = {
                        path[1:]: slot for path, slot in wants.items() if is_called(field, path[0])
                    }
                    self._code[at + 2 + i] = self._node(field["type"], inside)
                return at
            case "enum":
                at = self._add(Kind.ENUM, len(definition["symbols"]))
            case "fixed":
                if not 0 <= definition["size"] <= LARGEST_FIXED:
                    raise AvroSchemaError(f"{name}: a fixed of {definition['size']} bytes")
                at = self._add(Kind.FIXED, definition["size"])
            case "array":
                items = definition["items"]
                at = self._add(Kind.ARRAY, 0, self._is_empty(items, ()))
                self._code[at + 1] = self._node(items, {})
                return at
            case "map":
                at = self._add(Kind.MAP, 0)
                self._code[at + 1] = self._node(definition["values"], {})
                return at
            case other:
                raise AvroSchemaError(f"no type {other!r} is known")
        self._at[name] = at
        return at

    def _scalar(self, kind: str) -> int:
        if kind not in self._at:
            node = {
                "null": (Kind.EMPTY,), "boolean": (Kind.BOOLEAN,), "int": (Kind.VARINT,),
                "long": (Kind.VARINT,), "float": (Kind.FIXED, 4), "double": (Kind.FIXED, 8),
            }.get(kind, (Kind.TEXT,))  # fmt: skip
            self._at[kind] = self._add(*node)
        return self._at[kind]

    def _definition(self, schema: Any) -> dict[str, Any]:
        """Definition of a complex type, looked up where only its name is given."""
        definition = schema if isinstance(schema, dict) else self._named.get(schema)
        if not isinstance(definition, dict):
            raise AvroSchemaError(f"no type {schema!r} is known")
        inner = definition["type"]
        return self._definition(inner) if isinstance(inner, dict) else definition

    def _is_empty(self, schema: Any, inside: tuple[str, ...]) -> bool:
        """Whether values take no bytes: an array may claim any number of such items."""
        if isinstance(schema, list):
            return False
        kind = kind_of(schema)
        if kind in SCALARS:
            return kind == "null"
        definition = self._definition(schema)
        if definition["type"] == "fixed":
            return bool(definition["size"] == 0)
        if definition["type"] not in ("record", "error") or definition["name"] in inside:
            return False
        inside = (*inside, definition["name"])
        return all(self._is_empty(field["type"], inside) for field in definition["fields"])

    def _type(self, schema: Any) -> Type:
        """The type of a schema's values."""
        kind = kind_of(schema)
        if kind in SCALARS:
            return AvroScalar(kind)
        definition = self._definition(schema)
        kind = definition["type"]
        if kind == "enum":
            return AvroScalar("enum", tuple(definition["symbols"]))
        if kind == "fixed":
            return AvroScalar("fixed")
        if kind == "map":
            width = WIDTHS.get(kind_of(definition["values"]))
            if width is not None:
                return AvroNumberMap(width)
            description = f"a map of {named_kind(definition['values'])}"
            is_labels = kind_of(definition["values"]) == "boolean"
            return AvroLabels(description, STRING, True) if is_labels else AvroOther(description)
        if kind == "array":
            items = definition["items"]
            if (width := WIDTHS.get(kind_of(items))) is not None:
                return AvroNumbers(width)
            description, label = f"an array of {named_kind(items)}", self._label(items)
            if label is not None:
                return AvroLabels(description, label, False)
            return self._entries(items) or AvroOther(description)
        fields = definition["fields"]
        kinds = [kind_of(field["type"]) for field in fields]
        if fields and {*kinds} <= WIDTHS.keys():
            layout = struct.Struct("<" + "".join(FORMATS[kind] for kind in kinds))
            return NumberRecord(tuple(field["name"] for field in fields), layout)
        return AvroOther(f"a record {definition['name']!r}")

    def _entries(self, items: Any) -> AvroEntries | None:
        """Type of an array's items, where they are records of label and score."""
        if isinstance(items, list) or kind_of(items) in SCALARS:
            return None
        definition = self._definition(items)
        fields = {field["name"]: field["type"] for field in definition.get("fields", ())}
        if fields.keys() != {"label", "score"}:
            return None
        label, width = self._label(fields["label"]), WIDTHS.get(kind_of(fields["score"]))
        if width is None or label is None:
            return None
        return AvroEntries(label, width, next(iter(fields)) == "label")

    def _label(self, schema: Any) -> AvroScalar | None:
        """A type that names a class; None for another."""
        label = None if isinstance(schema, list) else self._type(schema)
        known = isinstance(label, AvroScalar) and label.kind in ("string", "enum", "int", "long")
        return label if known else None  # type: ignore[return-value]

    def fitted(self, schema: Any, values: Any) -> Any:
        """Select values for which a type has fields; ids become bytes where required."""
        branches = schema if isinstance(schema, list) else [schema]
        for branch in branches:
            kind = kind_of(branch)
            if isinstance(values, str) and kind == "bytes":
                return values.encode()
            if isinstance(values, str) and kind in ("int", "long"):
                return int(values)
            if isinstance(values, list) and kind == "array":
                items = self._definition(branch)["items"]
                return [self.fitted(items, entry) for entry in values]
            if isinstance(values, dict) and kind == "map":
                return values
            if isinstance(values, dict) and kind not in SCALARS:
                definition = self._definition(branch)
                fields = {f["name"]: f["type"] for f in definition.get("fields", ())}
                return {k: self.fitted(fields[k], v) for k, v in values.items() if k in fields}
        return values

    def at(self, path: Sequence[str]) -> Any:
        """Type at a path from the top; None without one."""
        type_: Any = self.top
        for name in path:
            branches = type_ if isinstance(type_, list) else [type_]
            type_ = None
            for branch in branches:
                if kind_of(branch) in SCALARS:
                    continue
                definition = self._definition(branch)
                for field in definition.get("fields", ()):
                    if type_ is None and is_called(field, name):
                        type_ = field["type"]
            if type_ is None:
                return None
        return type_


def kind_of(schema: Any) -> str:
    """Name of a type, "union" for a list; a logical type counts as its base type."""
    while isinstance(schema, dict):
        schema = schema["type"]
    return schema if isinstance(schema, str) else "union"


def named_kind(schema: Any) -> str:
    """Name of a type, for messages."""
    if isinstance(schema, dict) and schema.get("type") in NAMES:
        return f"{schema['type']} {schema.get('name')!r}"
    return kind_of(schema)


def is_called(field: Mapping[str, Any], name: str) -> bool:
    """Whether a field has a name, or has it as an alias."""
    return field["name"] == name or name in field.get("aliases", ())


def program_of(schema: SchemaText, places: Mapping[Path, int] | None = None) -> Program:
    """Compile a schema; AvroSchemaError where it is invalid."""
    named: dict[str, Any] = {}
    try:
        for text in schema.references.values():
            fastavro.parse_schema(json.loads(text), named)
        top = fastavro.parse_schema(json.loads(schema.text), named)
        return Program(top, named, places or {})
    except AvroSchemaError:
        raise
    except RecursionError:
        raise AvroSchemaError("nested too deeply") from None
    except Exception as error:  # foreign text can make fastavro raise anything
        why = str(error) or type(error).__name__
        raise AvroSchemaError(why[:500]) from None


def output_schema(
    schema: SchemaText, probs: Sequence[str], raw: str, *, asks: bool = False, sets: bool = False
) -> SchemaText:
    """Schema of the answers to records of a schema.

    Parameters
    ----------
    schema
        Schema of the input.
    probs
        Path of its probabilities.
    raw
        Field for the raw probabilities; empty: none.
    asks, sets
        Whether answers carry label requests, and sets.

    Raises
    ------
    AvroSchemaError
        The top is no record, it has nothing at ``probs``, or an added field's name is taken.
    """
    program = program_of(schema)
    if isinstance(program.top, list) or kind_of(program.top) not in ("record", "error"):
        raise AvroSchemaError(f"the top is {named_kind(program.top)}, expected a record")
    document = json.loads(schema.text)
    while isinstance(document.get("type"), dict):
        document = document["type"]
    added: list[dict[str, Any]] = []
    if raw:
        place = ".".join(probs)
        probs_type = program.at(probs)
        if probs_type is None:
            raise AvroSchemaError(f"no field {place!r}")
        branches = probs_type if isinstance(probs_type, list) else [probs_type]
        types = [branch for branch in branches if kind_of(branch) != "null"]
        if len(types) != 1:
            raise AvroSchemaError(f"{place}: a union of {len(types)} types, expected one or null")
        added.append({"name": raw, "type": ["null", referred(types[0])], "default": None})
    if asks:
        added.append({"name": ASKED, "type": ["null", "string"], "default": None})
    if sets:
        names = {"type": "array", "items": "string"}
        added.append({"name": SET, "type": ["null", names], "default": None})
    for field in added:
        if not _is_name(field["name"]):
            raise AvroSchemaError(f"raw: {field['name']!r} is no name of an Avro field")
        if any(is_called(existing, field["name"]) for existing in document["fields"]):
            way = "; give raw another name" if field["name"] == raw else ""
            raise AvroSchemaError(f"it has a field {field['name']!r}, which is ours{way}")
    document["fields"] = [*document["fields"], *added]
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    answer_schema = schema._replace(text=text)
    program_of(answer_schema)
    return answer_schema


def referred(schema: Any) -> Any:
    """Refer to a type a second time: named types by name only."""
    if isinstance(schema, list):
        return [referred(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema["type"] in NAMES:
        return schema["name"]
    return {
        key: referred(value) if key in ("type", "items", "values") else value
        for key, value in schema.items()
        if not key.startswith("__")
    }


# ---- messages


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
        return output_schema(schema, **self._added)

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
            return Raw(_write(_labels(span)))
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
            numbers, form = forms.parse(self._decode_probs(original))
            if isinstance(type_, NumberRecord) and isinstance(form, Largest):
                raise BadMessage(f"a record with {form.k} fields for {forms.m} classes")
            if isinstance(type_, AvroEntries) and type_.label.kind == "enum":
                self._require_symbols(type_.label, form)
        except (BadMessage, UnknownClass) as error:
            raise type(error)(f"{where}: {error}") from None
        return array("d", numbers), form

    def _decode_probs(self, span: AvroSpan) -> Any:
        """Decode probabilities that are no array, for the forms."""
        data, start, end, type_ = span
        match type_:
            case AvroNumberMap():
                try:
                    return read_map(data, start, end, type_.width)
                except UnicodeDecodeError as error:
                    raise BadMessage(f"a name in the map: {error}") from None
            case NumberRecord():
                return dict(zip(type_.names, type_.layout.unpack_from(data, start), strict=True))
            case AvroEntries():
                return list(_entries(span))
            case AvroScalar() if type_.kind in WIDTHS:
                return type_.value(data, start, end)
        description = (
            type_.kind if isinstance(type_, AvroScalar) else getattr(type_, "description", "")
        )
        raise BadMessage(
            f"{description}, expected an array or map of float or double, an array of records of"
            " label and score, or a record of float or double fields"
        )

    @staticmethod
    def _require_symbols(label: AvroScalar, form: Form | None) -> None:
        """Check that an enum of labels has a symbol for every class that an answer may name."""
        assert isinstance(form, Largest)
        missing = next((name for name in form.names if name not in label.symbols), None)
        if missing is not None:
            raise BadMessage(f"the labels are an enum that has no symbol for class {missing!r}")

    def names(self, message: AvroOpened, path: Sequence[str]) -> list[Any] | None:
        """Keys of a map, fields of a record, labels of entries."""
        span = self._span(message, path)
        if span is None or not isinstance(span.type, AvroNumberMap | NumberRecord | AvroEntries):
            return None
        probs = self._decode_probs(span)
        return [entry.label for entry in probs] if isinstance(probs, list) else list(probs)

    def write_all(
        self,
        predictions: Sequence[Prediction],
        rows: NDArray[np.float64],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """The records with new numbers, followed by the added fields."""
        out = []
        for prediction, row in zip(predictions, rows, strict=True):
            message, span = prediction.message, prediction.original
            data, start, end, _ = span
            tail = [b"\x02", data[start:end]] if raw else []
            if self._asks:
                reason = prediction.ask_reason
                tail.append(b"\x00" if reason is None else b"\x02" + _text(reason))
            if self.sets:
                names = prediction.set
                texts = None if names is None else [_text(json_name(name)) for name in names]
                tail.append(b"\x00" if texts is None else b"\x02" + _block(texts))
            placed = _placed(span, prediction.form, row)
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


def in_union(schema: SchemaText) -> tuple[list[Any], bytes]:
    """Put a schema last into a union, after those that it refers to, and return the union with its
    index prefix: fastavro only knows names within one schema."""
    texts = [*schema.references.values(), schema.text]
    return [json.loads(text) for text in texts], long_bytes(len(texts) - 1)


def _text(text: str) -> bytes:
    data = text.encode()
    return long_bytes(len(data)) + data


def _block(items: Sequence[bytes]) -> bytes:
    """Encode an array or map."""
    return (long_bytes(len(items)) + b"".join(items) if items else b"") + b"\x00"


def _entries(span: AvroSpan) -> list[LabelScore]:
    """Labels and scores of a walked array of records."""
    data, start, _, type_ = span
    assert isinstance(type_, AvroEntries)
    score = NUMBER[type_.width]

    def read(at: int) -> tuple[LabelScore, int]:
        name, behind = _name(type_.label, data, at if type_.label_first else at + score.size)
        (number,) = score.unpack_from(data, behind if type_.label_first else at)
        return LabelScore(name, number), behind + score.size * type_.label_first

    return _items(data, start, read)


def _labels(span: AvroSpan) -> Any:
    """Names in a walked array, or booleans by name of a walked map."""
    data, start, _, type_ = span
    assert isinstance(type_, AvroLabels)

    def read(at: int) -> tuple[tuple[Any, bool], int]:
        name, behind = _name(type_.label, data, at)
        return (name, data[behind] == 1), behind + 1

    if type_.is_map:
        return dict(_items(data, start, read))
    return _items(data, start, lambda at: _name(type_.label, data, at))


def _items(data: bytes, at: int, read: Callable[[int], tuple[Item, int]]) -> list[Item]:
    """Items of a walked array or map; ``read`` returns the one at a position, and where it ends."""
    items: list[Item] = []
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return items
        if count < 0:
            (_, at), count = read_long(data, at), -count
        for _ in range(count):
            item, at = read(at)
            items.append(item)


def _name(label: AvroScalar, data: bytes, at: int) -> tuple[Any, int]:
    """A label, and where it ends."""
    number, behind = read_long(data, at)
    if label.kind == "string":
        behind += number
    return label.value(data, at, behind), behind


def _placed(span: AvroSpan, form: Form | None, row: NDArray[np.float64]) -> bytes:
    """Encode probabilities in their original form and type."""
    data, start, end, type_ = span
    if isinstance(type_, AvroNumbers):
        return place_numbers(data, start, end, type_.width, row)
    assert form is not None
    numbers = row.tolist()
    if isinstance(type_, AvroNumberMap):
        if isinstance(form, Named):
            in_order = [numbers[i] for i in form.columns.values()]
            placed = place_map(data, start, end, type_.width, in_order)
            if placed is not None:
                return placed
        put, answer = NUMBER[type_.width].pack, form.of(numbers)
        return _block([_text(name) + put(number) for name, number in answer.items()])
    if isinstance(type_, NumberRecord):
        assert isinstance(form, Named)
        return type_.layout.pack(*[numbers[form.columns[name]] for name in type_.names])
    if isinstance(type_, AvroEntries):
        put, label = NUMBER[type_.width].pack, type_.label
        entries = []
        for entry in form.of(numbers):
            name, number = entry["label"], put(entry["score"])
            match label.kind:
                case "string":
                    text = _text(str(name))
                case "enum":
                    text = long_bytes(label.symbols.index(name))
                case _:
                    text = long_bytes(int(name))
            entries.append(text + number if type_.label_first else number + text)
        return _block(entries)
    assert isinstance(type_, AvroScalar)
    return NUMBER[WIDTHS[type_.kind]].pack(form.of(numbers))
