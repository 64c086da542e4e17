"""Types of a descriptor set, and those of answers with added fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from stream_can.messages.codecs.codec import ASKED, SET
from stream_can.messages.codecs.proto_shapes import (
    F,
    NumberMap,
    NumberMessage,
    Numbers,
    Scalar,
    Shape,
    place_at,
    require_shape,
)

__all__ = ["Types", "messages_of", "output_types"]

LARGEST_NUMBER, RESERVED = 2**29 - 1, range(19_000, 20_000)
"""Largest field number, and the range reserved by Protobuf."""


class Types(NamedTuple):
    """Types of a stream's messages and answers."""

    make: Any
    """Class of both: messages without an answer lack the added fields."""
    pool: Any
    file: Any
    """File of the message with the added fields, a FileDescriptorProto."""
    indexes: tuple[int, ...]
    """Index path of the message in its file: at the top, nested in that, and so on."""


def output_types(
    descriptor: bytes,
    message: str,
    probs: Sequence[str],
    raw: str,
    *,
    asks: bool,
    sets: bool,
    first_field: int,
) -> Types:
    """Read a message type from a descriptor set and add the fields of answers.

    Parameters
    ----------
    descriptor
        A FileDescriptorSet with all imported files.
    message
        Full name of the message type.
    probs
        Path of the probabilities.
    raw
        Field for the raw probabilities; empty: none.
    asks, sets
        Whether answers carry label requests, and sets.
    first_field
        Number of the raw probabilities; label requests have the next one, sets that behind it.

    Raises
    ------
    ValueError
        The descriptor set is invalid or incomplete; there is no such message, or nothing at
        ``probs``; or the name or number of an added field is taken.
    """
    files = _files(descriptor)
    name, indexes = _find(files, message)
    pool = _pool(files)
    if raw or asks or sets:
        top = pool.FindMessageTypeByName(message)
        files[name] = file = _copy(files[name])
        added = _Added(file, _message_at(file, indexes), top, pool.FindAllExtensions(top))
        if raw:
            place, like = place_at(top, probs), _field_at(top, probs)
            if place is None:
                raise ValueError(f"message {message}: no field {'.'.join(probs)!r}")
            require_shape(place.shape, ".".join(probs))
            added.raw(raw, first_field, like, place.shape)
        if asks:
            added.text(ASKED, first_field + 1)
        if sets:
            added.texts(SET, first_field + 2)
        pool = _pool(files)
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    return Types(make, pool, files[name], indexes)


def _files(descriptor: bytes) -> dict[str, Any]:
    """Files of a descriptor set by name, each after those that it imports."""
    file_set = descriptor_pb2.FileDescriptorSet()
    try:
        file_set.ParseFromString(descriptor)
    except DecodeError as error:
        raise ValueError(f"no FileDescriptorSet: {error}") from None
    if not file_set.file:
        raise ValueError("a FileDescriptorSet without files")
    by_name = {file.name: file for file in file_set.file}
    if len(by_name) < len(file_set.file):
        raise ValueError("two files of the same name")
    ordered: dict[str, Any] = {}
    visited: set[str] = set()
    waiting = [(name, name) for name in reversed(by_name)]
    while waiting:
        name, importer = waiting[-1]
        if name not in by_name:
            raise ValueError(
                f"{importer} imports {name}, which is not there: write it with protoc"
                " --include_imports"
            )
        dependencies = [
            dependency for dependency in by_name[name].dependency if dependency not in ordered
        ]
        if name in visited and any(dependency in visited for dependency in dependencies):
            raise ValueError(f"{name} imports itself")
        visited.add(name)
        if dependencies:
            waiting += [(dependency, name) for dependency in dependencies]
            continue
        waiting.pop()
        ordered[name] = by_name[name]
    return ordered


def _pool(files: Mapping[str, Any]) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for name, file in files.items():
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except Exception as error:  # foreign types can make protobuf raise anything
            raise ValueError(f"{name}: {str(error)[:500]}") from None
    return pool


def _find(files: Mapping[str, Any], message: str) -> tuple[str, tuple[int, ...]]:
    """File of a message, and its indexes."""
    for name, file in files.items():
        for full_name, indexes in messages_of(file):
            if full_name == message:
                return name, indexes
    names = [full_name for file in files.values() for full_name, _ in messages_of(file)]
    some = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    raise ValueError(f"no message {message!r}; there are {some or 'none'}")


def messages_of(file: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Messages of a file with their indexes, without map entries."""
    waiting: list[tuple[str, tuple[int, ...], Any]] = [(file.package, (), file)]
    while waiting:
        scope, at, holder = waiting.pop()
        for i, message in enumerate(holder.nested_type if at else holder.message_type):
            if not message.options.map_entry:
                name = f"{scope}.{message.name}" if scope else message.name
                yield name, (*at, i)
                waiting.append((name, (*at, i), message))


def _message_at(file: Any, indexes: Sequence[int]) -> Any:
    message = file.message_type[indexes[0]]
    for index in indexes[1:]:
        message = message.nested_type[index]
    return message


def _field_at(top: Any, path: Sequence[str]) -> Any:
    """Field at a path; None without one."""
    if place_at(top, path) is None:
        return None
    for name in path[:-1]:
        top = top.fields_by_name[name].message_type
    return top.fields_by_name[path[-1]]


def _copy(message: Any) -> Any:
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


class _Added:
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
        self._in_json = {_in_json(field.name): field.name for field in message.field}
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
        other = self._in_json.get(_in_json(name))
        if other is not None:
            raise ValueError(
                f"message {self._top.full_name} has a field {other!r}, which JSON calls as it does"
                f" our {name!r}{_way(name)}"
            )
        self._in_json[_in_json(name)] = name
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
                f" {owner}; set protobuf_first_field to the first of three that are free"
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
    return "" if name in (ASKED, f"_{ASKED}", SET) else "; give raw another name"


def _in_json(name: str) -> str:
    """Name of a field in JSON."""
    first, *words = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in words)
