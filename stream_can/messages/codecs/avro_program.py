"""Avro schemas, compiled for the walk."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import fastavro

from stream_can.messages.codecs.avro_types import (
    NAMES,
    SCALARS,
    AvroSchemaError,
    Type,
    definition_of,
    is_called,
    kind_of,
    type_of,
)
from stream_can.messages.codecs.framing import SchemaText, long_bytes
from stream_can.messages.codecs.walk import Kind, Walker

if TYPE_CHECKING:
    Row = array[float]

LARGEST_FIXED = 2**31 - 1
Path = tuple[str, ...]


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
            type_ = type_of(schema, self._named)
            rest = {path: slot for path, slot in wants.items() if path}
            child, slot = self._node(schema, rest), wants[()]
            self.types.append(type_)
            return self._add(Kind.CAPTURE, slot, len(self.types) - 1, child)
        kind = kind_of(schema)
        if kind in SCALARS:
            return self._scalar(kind)
        definition = definition_of(schema, self._named)
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

    def _is_empty(self, schema: Any, inside: tuple[str, ...]) -> bool:
        """Whether values take no bytes: an array may claim any number of such items."""
        if isinstance(schema, list):
            return False
        kind = kind_of(schema)
        if kind in SCALARS:
            return kind == "null"
        definition = definition_of(schema, self._named)
        if definition["type"] == "fixed":
            return bool(definition["size"] == 0)
        if definition["type"] not in ("record", "error") or definition["name"] in inside:
            return False
        inside = (*inside, definition["name"])
        return all(self._is_empty(field["type"], inside) for field in definition["fields"])

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
                items = definition_of(branch, self._named)["items"]
                return [self.fitted(items, entry) for entry in values]
            if isinstance(values, dict) and kind == "map":
                return values
            if isinstance(values, dict) and kind not in SCALARS:
                definition = definition_of(branch, self._named)
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
                definition = definition_of(branch, self._named)
                for field in definition.get("fields", ()):
                    if type_ is None and is_called(field, name):
                        type_ = field["type"]
            if type_ is None:
                return None
        return type_


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


def in_union(schema: SchemaText) -> tuple[list[Any], bytes]:
    """Put a schema last into a union, after those that it refers to, and return the union with its
    index prefix: fastavro only knows names within one schema."""
    texts = [*schema.references.values(), schema.text]
    return [json.loads(text) for text in texts], long_bytes(len(texts) - 1)
