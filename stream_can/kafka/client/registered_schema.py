"""RegisteredSchema: a schema of a registry, with the schemas that it refers to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

__all__ = [
    "IdMessage", "Kind", "Reference", "RegisteredSchema", "SchemaMessage", "VerdictMessage",
    "to_register",
]  # fmt: skip

Kind = Literal["AVRO", "PROTOBUF", "JSON"]


class Reference(msgspec.Struct, frozen=True):
    """A schema that another one refers to."""

    name: str
    """Name used by the other schema: full record name (Avro), file (Protobuf), URL (JSON)."""
    subject: str
    version: int


class RegisteredSchema(NamedTuple):
    """A schema held by the registry."""

    kind: Kind
    text: str
    references: Mapping[str, str] = {}
    """Texts of all schemas that it refers to, by name, each after those that it refers to."""
    direct: tuple[Reference, ...] = ()
    """Its direct references, to be passed to `Registry.register` with its text."""


class SchemaMessage(msgspec.Struct):
    """A schema in the registry's JSON."""

    schema: str
    schemaType: str | None = None  # noqa: N815, the registry's name
    references: list[Reference] | None = None


class IdMessage(msgspec.Struct):
    """The id of a schema in the registry's JSON."""

    id: int


class VerdictMessage(msgspec.Struct):
    """Whether a schema is compatible, in the registry's JSON."""

    is_compatible: bool
    messages: list[str] | None = None
    reason: str | None = None  # Apicurio's for messages


def to_register(kind: Kind, text: str, references: Sequence[Reference]) -> bytes:
    """The JSON with which a schema is registered, or checked."""
    body: dict[str, Any] = {"schema": text}
    if kind != "AVRO":  # the default of older registries
        body["schemaType"] = kind
    if references:
        body["references"] = list(references)
    return msgspec.json.encode(body)
