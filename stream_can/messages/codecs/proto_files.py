"""Files of a Protobuf descriptor set, and the messages in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]


def files_of(descriptor: bytes) -> dict[str, Any]:
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


def pool_of(files: Mapping[str, Any]) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for name, file in files.items():
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except Exception as error:  # foreign types can make protobuf raise anything
            raise ValueError(f"{name}: {str(error)[:500]}") from None
    return pool


def find_message(files: Mapping[str, Any], message: str) -> tuple[str, tuple[int, ...]]:
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


def message_at(file: Any, indexes: Sequence[int]) -> Any:
    message = file.message_type[indexes[0]]
    for index in indexes[1:]:
        message = message.nested_type[index]
    return message
