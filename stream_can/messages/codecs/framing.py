"""Frames of messages: the bytes before them that tell their schema.

- a byte 0 and the four of a schema's number: what serializers for Confluent's registry write, and
  for those that speak its protocol
- the header ``__value_schema_id``: a byte 1 and the sixteen of a schema's GUID; newer ones write it
- the bytes C3 01 and the eight of a fingerprint: Avro's single-object encoding, without a registry
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
"""Name of a schema in a message: number, GUID or fingerprint."""


class SchemaText(NamedTuple):
    """A schema, as it is stored."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: Mapping[str, str] = {}
    """Schemas that it names, in an order in which each names only earlier ones: name -> text."""
    named: Sequence[Any] = ()
    """The same, as a registry wants to hear of them."""


class Schemas(Protocol):
    """Where schemas come from, and where those of outputs go."""

    def key(self, value: bytes, headers: Headers) -> tuple[Key, int]:
        """Name of a message's schema, and where its own bytes begin.

        Raises
        ------
        BadMessage
            Nothing that is known stands before it.
        """

    def schema(self, key: Key) -> SchemaText:
        """The schema; BadMessage where nobody knows it, any other error where nobody answers."""

    def newest(self) -> tuple[bytes, SchemaText]:
        """The schema of new messages, and what is to stand before them; BadMessage where there is
        none, any other error where nobody answers."""

    def head(self, written: SchemaText) -> bytes:
        """Make the bytes before a message of a schema that we write; the schema is made known once.

        Raises
        ------
        BadMessage
            It is refused; in the words of who refuses.
        """


def key_of(value: bytes, headers: Headers) -> tuple[Key, int]:
    """:meth:`Schemas.key` of what serializers for a registry write."""
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
    """Name of a schema, for an error."""
    return key.hex() if isinstance(key, bytes) else str(key)
