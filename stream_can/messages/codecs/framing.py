"""Framing: the prefix of a message that names its schema.

- a byte 0 and four bytes of a schema's number: serializers for Confluent's registry and those
compatible with it - the header ``__value_schema_id``: a byte 1 and sixteen bytes of a schema's
GUID; newer serializers - the bytes C3 01 and eight bytes of a fingerprint: Avro's single-object
encoding, without a registry
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from stream_can.messages.columns import header_bytes
from stream_can.messages.forms import BadMessage

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

__all__ = ["GUID_HEADER", "Key", "SchemaText", "Schemas", "key_of", "shown"]

GUID_HEADER = "__value_schema_id"
HEAD, GUID = 5, 17
Key = int | UUID | bytes
"""Key of a schema in a message: number, GUID or fingerprint."""


class SchemaText(NamedTuple):
    """A schema as stored."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: Mapping[str, str] = {}
    """Schemas that it refers to, each after those that it refers to: name -> text."""
    named: Sequence[Any] = ()
    """The same references, as a registry expects them."""


class Schemas(Protocol):
    """Source of schemas, which also registers those of answers."""

    def key(self, value: bytes, headers: Headers) -> tuple[Key, int]:
        """Return the key of a message's schema, and where its content begins.

        Raises
        ------
        BadMessage
            There is no known prefix.
        """

    def schema(self, key: Key) -> SchemaText:
        """The schema; BadMessage where unknown, other errors where no registry answers."""

    def newest(self) -> tuple[bytes, SchemaText]:
        """Schema of new messages with its prefix; BadMessage where there is none, other errors
        where no registry answers."""

    def head(self, written: SchemaText) -> bytes:
        """Prefix of messages with a schema of ours, which is registered once.

        Raises
        ------
        BadMessage
            It is refused; the text quotes the registry.
        """


def key_of(value: bytes, headers: Headers) -> tuple[Key, int]:
    """:meth:`Schemas.key` for serializers of a registry."""
    if headers and (guid := header_bytes(headers, GUID_HEADER)) is not None:
        if len(guid) < GUID or guid[0] != 1:
            raise BadMessage(f"header {GUID_HEADER}: expected a byte 1 and the 16 of a GUID")
        return UUID(bytes=guid[1:GUID]), 0
    if len(value) < HEAD or value[0] != 0:
        begins = f"it begins with {value[:HEAD].hex(' ')}" if value else "it is empty"
        raise BadMessage(
            f"no schema is named: {begins}, expected a byte 0 and the four of a schema's number, as"
            " the serializers of a schema registry write them"
        )
    return int.from_bytes(value[1:HEAD], "big"), HEAD


def shown(key: Key) -> str:
    """A schema's key, for messages."""
    return key.hex() if isinstance(key, bytes) else str(key)
