"""Framing: the prefix of a message that names its schema.

- a byte 0 and four bytes of a schema's number: serializers for Confluent's registry and those
compatible with it - the header ``__value_schema_id``: a byte 1 and sixteen bytes of a schema's
GUID; newer serializers - the bytes C3 01 and eight bytes of a fingerprint: Avro's single-object
encoding, without a registry
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol
from uuid import UUID

from stream_can.messages.columns import header_bytes
from stream_can.messages.faults import beginning
from stream_can.messages.probability_formats import BadMessage

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

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


class AnswerFields(NamedTuple):
    """Fields that answers have beside those of their messages."""

    probs: Sequence[str]
    """Path of the probabilities."""
    raw: str
    """Field for the raw probabilities; empty: none."""
    asks: bool = False
    """Whether answers carry label requests."""
    sets: bool = False
    decides: bool = False
    """Whether they carry decisions."""


class SchemaCodec(ABC):
    """Base of the codecs whose messages name their schema, from which that of answers is made.

    Parameters
    ----------
    schemas
        Source of schemas, which also registers those of answers; None where messages name none.
    probs
        Path of the probabilities.
    raw
        Field for the raw probabilities; empty: none.
    asks, sets, decides
        Whether answers carry label requests, sets, and decisions.
    """

    dropped = frozenset({GUID_HEADER})
    kind: ClassVar[str]
    """Kind of its schemas, as a registry calls it."""
    _indexes = b""
    """What stands between the schema's number and the content."""

    def __init__(
        self,
        schemas: Schemas | None,
        probs: str = "probs",
        raw: str = "probs_raw",
        *,
        asks: bool = False,
        sets: bool = False,
        decides: bool = False,
    ) -> None:
        self.schemas: Any = schemas
        self.sets = sets
        self._added = AnswerFields(probs.split("."), raw, asks, sets, decides)
        self._heads: dict[Key | None, bytes] = {None: b""}

    def key(self, value: bytes, headers: Headers) -> Key | None:
        """Return number, GUID or fingerprint of the schema."""
        return None if self.schemas is None else self.schemas.key(value, headers)[0]

    def prepare(self, value: bytes, headers: Headers, *, answered: bool) -> None:
        """Look up the schema of a message that is answered; others need none."""
        if answered:
            self._head(self.key(value, headers))

    def answer(self, schema: SchemaText) -> SchemaText:
        """Add the fields of answers; BadMessage where there can be none."""
        if schema.kind != self.kind:
            raise BadMessage(f"of kind {schema.kind}, expected {self.kind}")
        return self._answer(schema)

    @abstractmethod
    def _answer(self, schema: SchemaText) -> SchemaText: ...

    def raw_path(self, path: Sequence[str], raw: str) -> list[str]:
        """At the end of the message: nested types may be used in several places."""
        return [raw]

    def _head(self, key: Key | None) -> bytes:
        """Prefix of answers to messages of a schema."""
        head = self._heads.get(key)
        if head is None:
            assert key is not None
            schema = self.schemas.schema(key)
            try:
                answer_schema = self.answer(schema)
            except BadMessage as error:
                raise type(error)(f"schema {shown(key)}: {error}") from None
            head = self._heads[key] = self.schemas.head(answer_schema) + self._indexes
        return head


def key_of(value: bytes, headers: Headers) -> tuple[Key, int]:
    """:meth:`Schemas.key` for serializers of a registry."""
    if headers and (guid := header_bytes(headers, GUID_HEADER)) is not None:
        if len(guid) < GUID or guid[0] != 1:
            raise BadMessage(f"header {GUID_HEADER}: expected a byte 1 and the 16 of a GUID")
        return UUID(bytes=guid[1:GUID]), 0
    if len(value) < HEAD or value[0] != 0:
        raise BadMessage(
            f"no schema is named: {beginning(value)}; expected a byte 0 and the four of a schema's"
            " number, as the serializers of a schema registry write them"
        )
    return int.from_bytes(value[1:HEAD], "big"), HEAD


def shown(key: Key) -> str:
    """A schema's key, for messages."""
    return key.hex() if isinstance(key, bytes) else str(key)


def long_bytes(number: int) -> bytes:
    """Encode a number of 64 bits.

    >>> long_bytes(-65).hex()
    '8101'
    """
    bits, out = (number << 1) ^ (number >> 63), bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes((*out, bits))


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Decode the number at a position; return it and the following position.

    Raises
    ------
    BadMessage
        It does not end within ten bytes: of message indexes, as Avro's are walked before.
    """
    bits = 0
    for shift, byte in enumerate(data[at : at + 10]):
        bits |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), at + shift + 1
    raise BadMessage("the message indexes have no end")
