"""Types of values in Avro records."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from stream_can.messages.codecs.framing import read_long
from stream_can.messages.probability_formats import BadMessage

if TYPE_CHECKING:
    Row = array[float]

WIDTHS = {"float": 4, "double": 8}
FORMATS = {"float": "f", "double": "d"}
NUMBER = {4: struct.Struct("<f"), 8: struct.Struct("<d")}
SCALARS = {"null", "boolean", "int", "long", "float", "double", "string", "bytes"}
NAMES = ("record", "error", "enum", "fixed")
"""Types with names of their own."""


class AvroSchemaError(BadMessage):
    """Records of a schema cannot be read or answered."""


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


def definition_of(schema: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """Definition of a complex type, looked up where only its name is given."""
    definition = schema if isinstance(schema, dict) else named.get(schema)
    if not isinstance(definition, dict):
        raise AvroSchemaError(f"no type {schema!r} is known")
    inner = definition["type"]
    return definition_of(inner, named) if isinstance(inner, dict) else definition


def type_of(schema: Any, named: Mapping[str, Any]) -> Type:
    """The type of a schema's values."""
    kind = kind_of(schema)
    if kind in SCALARS:
        return AvroScalar(kind)
    definition = definition_of(schema, named)
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
        description, label = f"an array of {named_kind(items)}", _label(items, named)
        if label is not None:
            return AvroLabels(description, label, False)
        return _entries(items, named) or AvroOther(description)
    fields = definition["fields"]
    kinds = [kind_of(field["type"]) for field in fields]
    if fields and {*kinds} <= WIDTHS.keys():
        layout = struct.Struct("<" + "".join(FORMATS[kind] for kind in kinds))
        return NumberRecord(tuple(field["name"] for field in fields), layout)
    return AvroOther(f"a record {definition['name']!r}")


def _entries(items: Any, named: Mapping[str, Any]) -> AvroEntries | None:
    """Type of an array's items, where they are records of label and score."""
    if isinstance(items, list) or kind_of(items) in SCALARS:
        return None
    definition = definition_of(items, named)
    fields = {field["name"]: field["type"] for field in definition.get("fields", ())}
    if fields.keys() != {"label", "score"}:
        return None
    label, width = _label(fields["label"], named), WIDTHS.get(kind_of(fields["score"]))
    if width is None or label is None:
        return None
    return AvroEntries(label, width, next(iter(fields)) == "label")


def _label(schema: Any, named: Mapping[str, Any]) -> AvroScalar | None:
    """A type that names a class; None for another."""
    label = None if isinstance(schema, list) else type_of(schema, named)
    known = isinstance(label, AvroScalar) and label.kind in ("string", "enum", "int", "long")
    return label if known else None  # type: ignore[return-value]
