"""Fields that are added to a Protobuf message, under names and numbers that are free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
)

from stream_can.messages.codecs.codec import ASKED, DECISION, SET
from stream_can.messages.codecs.proto_shapes import (
    F,
    NumberMap,
    NumberMessage,
    Numbers,
    Scalar,
    Shape,
)
from stream_can.messages.codecs.proto_source import name_in_json

LARGEST_NUMBER, RESERVED = 2**29 - 1, range(19_000, 20_000)
"""Largest field number, and the range reserved by Protobuf."""


class AddedFields:
    """Adds fields to a message, whose names and numbers must be free."""

    def __init__(self, file: Any, message: Any, top: Any, extensions: Sequence[Any]) -> None:
        self._file, self._message, self._top = file, message, top
        parts = (
            ("field", message.field), ("type", message.nested_type), ("type", message.enum_type),
            ("oneof", message.oneof_decl), ("extension", message.extension),
        )  # fmt: skip
        self._names = {element.name: kind for kind, elements in parts for element in elements}
        self._names |= {
            symbol.name: "symbol" for enum in message.enum_type for symbol in enum.value
        }
        self._names |= dict.fromkeys(message.reserved_name, "reserved name")
        self._in_json = {name_in_json(field.name): field.name for field in message.field}
        self._numbers = {field.number: f"field {field.name!r}" for field in message.field}
        self._numbers |= {
            extension.number: f"extension {extension.full_name!r}" for extension in extensions
        }

    def text(self, name: str, number: int) -> None:
        """Add a string."""
        self._optional(name, number, F.TYPE_STRING)

    def texts(self, name: str, number: int) -> None:
        """Add repeated strings."""
        self._field(name, number, F.TYPE_STRING).label = F.LABEL_REPEATED

    def raw(self, name: str, number: int, like: Any, shape: Shape) -> None:
        """Add a field with the type of another."""
        if not (name.isidentifier() and name.isascii()):
            raise ValueError(f"raw: {name!r} is no name of a field in Protobuf")
        type_ = F.TYPE_MESSAGE if like.type == F.TYPE_GROUP else like.type
        inner = like.message_type
        if inner is not None and not isinstance(shape, NumberMap):
            self._import(inner.file)
        if isinstance(shape, Scalar | NumberMessage):
            field = self._optional(name, number, type_)
        else:
            field = self._field(name, number, type_)
            field.label = F.LABEL_REPEATED
        if isinstance(shape, Numbers) and like.GetOptions().HasField("packed"):
            field.options.packed = like.GetOptions().packed
        if isinstance(shape, NumberMap):
            camel = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
            entry = self._message.nested_type.add(name=f"{camel}Entry")
            entry.options.map_entry = True
            for number, part in enumerate(inner.fields, 1):
                entry.field.add(
                    name=part.name, number=number, type=part.type, label=F.LABEL_OPTIONAL
                )
            self._call(entry.name, "type", f" for the entries of {name!r}")
            field.type_name = f".{self._top.full_name}.{entry.name}"
        elif inner is not None:
            field.type_name = f".{inner.full_name}"

    def _optional(self, name: str, number: int, type_: int) -> Any:
        """Add a field with presence."""
        field = self._field(name, number, type_)
        field.label = F.LABEL_OPTIONAL
        if type_ != F.TYPE_MESSAGE:
            if self._file.syntax == "proto3":
                field.proto3_optional, field.oneof_index = True, len(self._message.oneof_decl)
                self._message.oneof_decl.add(name=f"_{name}")
                self._call(f"_{name}", "oneof", f" for {name!r}")
            elif self._file.syntax == "editions":
                field.options.features.field_presence = descriptor_pb2.FeatureSet.EXPLICIT
        return field

    def _field(self, name: str, number: int, type_: int) -> Any:
        self._call(name, "field")
        other = self._in_json.get(name_in_json(name))
        if other is not None:
            raise ValueError(
                f"message {self._top.full_name} has a field {other!r}, which JSON calls as it does"
                f" our {name!r}{_way(name)}"
            )
        self._in_json[name_in_json(name)] = name
        self._require_free(number)
        return self._message.field.add(name=name, number=number, type=type_)

    def _call(self, name: str, kind: str, purpose: str = "") -> None:
        """Claim a name for an added element."""
        if (holder := self._names.get(name)) is not None:
            raise ValueError(
                f"message {self._top.full_name} has a {holder} {name!r}, which is ours{purpose}"
                f"{_way(name)}"
            )
        self._names[name] = kind

    def _require_free(self, number: int) -> None:
        owner = self._numbers.get(number)
        for ranges, called in (
            (self._message.reserved_range, "the reserved numbers"),
            (self._message.extension_range, "the numbers for extensions"),
        ):
            for span in ranges:
                if span.start <= number < span.end:
                    owner = owner or f"{called} {span.start} to {span.end - 1}"
        if owner is not None:
            raise ValueError(
                f"message {self._top.full_name}: number {number} of an added field is taken by"
                f" {owner}; set protobuf_first_field to the first of four that are free"
            )
        if not 1 <= number <= LARGEST_NUMBER or number in RESERVED:
            raise ValueError(
                f"protobuf_first_field: {number} is no number of a field; those are 1 to"
                f" {LARGEST_NUMBER} without {RESERVED[0]} to {RESERVED[-1]}"
            )

    def _import(self, file: Any) -> None:
        """Import the types of a file into the message's file."""
        seen, waiting = {self._top.file.name}, list(self._top.file.dependencies)
        while waiting:
            imported = waiting.pop()
            if imported.name not in seen:
                seen.add(imported.name)
                waiting += imported.public_dependencies
        if file.name not in seen:
            self._file.dependency.append(file.name)


def _way(name: str) -> str:
    return (
        ""
        if name in (ASKED, f"_{ASKED}", SET, DECISION, f"_{DECISION}")
        else "; give raw another name"
    )
