"""Convert a Protobuf file's descriptor to the text of a .proto file.

Registries check the compatibility of schemas by their texts; not all can do so with descriptors.
Services and unknown options are omitted: readers and writers of messages do not need them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2, text_encoding  # type: ignore[import-untyped]

F = descriptor_pb2.FieldDescriptorProto
LARGEST = {"message": 2**29 - 1, "enum": 2**31 - 1}
"""Largest numbers of fields and of enum values."""


def source(file: Any) -> str:
    """Text of a FileDescriptorProto.

    Examples
    --------
    >>> file = descriptor_pb2.FileDescriptorProto(syntax="proto3", package="shop")
    >>> message = file.message_type.add(name="Order")
    >>> _ = message.field.add(name="id", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    >>> print(source(file), end="")
    syntax = "proto3";
    package shop;
    message Order {
      string id = 1;
    }
    """
    return "".join(f"{line}\n" for line in _file(file))


def _file(file: Any) -> Iterator[str]:
    if file.syntax == "editions":
        name: str = descriptor_pb2.Edition.Name(file.edition)
        yield f"edition = {_quoted(name.removeprefix('EDITION_'))};"
    else:
        yield f"syntax = {_quoted(file.syntax or 'proto2')};"
    if file.package:
        yield f"package {file.package};"
    for i, name in enumerate(file.dependency):
        public = "public " if i in file.public_dependency else ""
        yield f"import {public}{_quoted(name)};"
    yield from _option_lines(file.options)
    for enum in file.enum_type:
        yield from _enum(file, enum)
    groups = {extension.type_name for extension in file.extension if extension.type == F.TYPE_GROUP}
    scope = f".{file.package}" if file.package else ""
    for message in file.message_type:
        if f"{scope}.{message.name}" not in groups:
            yield from _message(file, message, f"{scope}.{message.name}")
    inside = {f"{scope}.{top_level.name}": top_level for top_level in file.message_type}
    yield from _extensions(file, file.extension, inside)


def _message(file: Any, message: Any, full_name: str, head: str | None = None) -> Iterator[str]:
    """Lines of a message; of a group after its ``head``."""
    yield f"{head or f'message {message.name}'} {{"
    inside = {f"{full_name}.{nested.name}": nested for nested in message.nested_type}
    yield from _indented(_body(file, message, full_name, inside))
    yield "}"


def _body(file: Any, message: Any, full_name: str, inside: dict[str, Any]) -> Iterator[str]:
    yield from _option_lines(message.options)
    for enum in message.enum_type:
        yield from _enum(file, enum)
    defined_by_field = {
        extension.type_name for extension in message.extension if extension.type == F.TYPE_GROUP
    }
    defined_by_field |= {field.type_name for field in message.field if field.type == F.TYPE_GROUP}
    defined_by_field |= {name for name, nested in inside.items() if nested.options.map_entry}
    waiting = list(inside)
    unions = set()
    for field in message.field:
        fields = [field]
        in_union = field.HasField("oneof_index") and not field.proto3_optional
        if in_union:
            if field.oneof_index in unions:
                continue
            unions.add(field.oneof_index)
            fields = [
                member
                for member in message.field
                if member.HasField("oneof_index") and member.oneof_index == field.oneof_index
            ]
        # A map or a group defines a nested type, at the position of its field among the others:
        # message indexes depend on the positions.
        while any(
            member.type_name in defined_by_field and member.type_name in waiting
            for member in fields
        ):
            name = waiting.pop(0)
            if name not in defined_by_field:
                yield from _message(file, inside[name], name)
        if not in_union:
            yield from _field(file, field, inside)
            continue
        union = message.oneof_decl[field.oneof_index]
        yield f"oneof {union.name} {{"
        yield from _indented(_option_lines(union.options))
        for member in fields:
            yield from _indented(_field(file, member, inside, bare=True))
        yield "}"
    for name in waiting:
        if name not in defined_by_field:
            yield from _message(file, inside[name], name)
    for span in message.extension_range:
        yield f"extensions {_range(span.start, span.end - 1, 'message')};"
    ranges = [(span.start, span.end - 1) for span in message.reserved_range]
    yield from _reserved(file, ranges, message.reserved_name, "message")
    yield from _extensions(file, message.extension, inside)


def _extensions(file: Any, fields: Iterable[Any], inside: dict[str, Any]) -> Iterator[str]:
    for field in fields:
        yield f"extend {field.extendee} {{"
        yield from _indented(_field(file, field, inside))
        yield "}"


def _field(file: Any, field: Any, inside: dict[str, Any], *, bare: bool = False) -> Iterator[str]:
    """Lines of a field; ``bare`` inside a oneof."""
    entry = inside.get(field.type_name)
    if entry is not None and entry.options.map_entry:
        key, value = entry.field
        rule, kind = "", f"map<{_kind(key)}, {_kind(value)}>"
    else:
        rule, kind = "" if bare else _rule(file, field), _kind(field)
    options = [f"default = {_default(field)}"] if field.HasField("default_value") else []
    if field.json_name and field.json_name != name_in_json(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    options += [f"{name} = {value}" for name, value in _options(field.options)]
    behind = _behind(options)
    if field.type == F.TYPE_GROUP:
        group = inside[field.type_name]
        head = f"{rule}group {group.name} = {field.number}{behind}"
        yield from _message(file, group, field.type_name, head)
        return
    yield f"{rule}{kind} {field.name} = {field.number}{behind};"


def _behind(options: list[str]) -> str:
    return f" [{', '.join(options)}]" if options else ""


def _rule(file: Any, field: Any) -> str:
    if field.label == F.LABEL_REPEATED:
        return "repeated "
    if field.label == F.LABEL_REQUIRED:
        return "required "
    if field.proto3_optional or file.syntax in ("", "proto2"):
        return "optional "
    return ""


def _kind(field: Any) -> str:
    name: str = F.Type.Name(field.type)
    return field.type_name or name.removeprefix("TYPE_").lower()


def _default(field: Any) -> str:
    text: str = field.default_value
    if field.type == F.TYPE_BYTES:  # escaped already
        return f'"{text}"'
    return _quoted(text) if field.type == F.TYPE_STRING else text


def _enum(file: Any, enum: Any) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(_option_lines(enum.options))
    for value in enum.value:
        options = [f"{name} = {text}" for name, text in _options(value.options)]
        yield f"  {value.name} = {value.number}{_behind(options)};"
    ranges = [(span.start, span.end) for span in enum.reserved_range]
    yield from _indented(_reserved(file, ranges, enum.reserved_name, "enum"))
    yield "}"


def _reserved(
    file: Any, ranges: list[tuple[int, int]], names: Iterable[str], of: str
) -> Iterator[str]:
    for first, last in ranges:
        yield f"reserved {_range(first, last, of)};"
    for name in names:
        yield f"reserved {name if file.syntax == 'editions' else _quoted(name)};"


def _range(first: int, last: int, of: str) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == LARGEST[of] else last}"


def _option_lines(options: Any) -> Iterator[str]:
    for name, value in _options(options):
        yield f"option {name} = {value};"


def _options(options: Any, inside: str = "") -> Iterator[tuple[str, str]]:
    """Names and values of the scalar options."""
    for field, value in options.ListFields():
        name = f"{inside}{field.name}"
        if field.is_extension or name == "map_entry":
            continue
        if isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, int) and field.enum_type is not None:
            yield name, field.enum_type.values_by_number[value].name
        elif isinstance(value, str | int | float):
            yield name, _quoted(value) if isinstance(value, str) else str(value)
        elif hasattr(value, "ListFields"):
            yield from _options(value, f"{name}.")


def _quoted(text: str) -> str:
    return f'"{text_encoding.CEscape(text, as_utf8=True)}"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def name_in_json(name: str) -> str:
    """Name of a field in JSON."""
    first, *words = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in words)
