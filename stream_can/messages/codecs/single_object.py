"""Avro records in single-object encoding, with the schema in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import fastavro

from stream_can.messages.codecs.framing import Key, SchemaText
from stream_can.messages.faults import beginning
from stream_can.messages.probability_formats import BadMessage

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

MARK = b"\xc3\x01"
"""Marker before a record; eight bytes of its schema's fingerprint follow."""
SIZE = 10


class SchemaFile:
    """The Avro schema in a file, for records in single-object encoding.

    Parameters
    ----------
    path
        Path of the file.

    Raises
    ------
    ValueError
        It cannot be read, or is no schema.
    """

    def __init__(self, path: str) -> None:
        try:
            text = Path(path).read_text()
            self._head = single(text)
        except OSError as error:
            raise ValueError(f"avro_schema: {path}: {error.strerror}") from None
        except Exception as error:  # fastavro raises various errors
            raise ValueError(f"avro_schema: {path}: {error}") from None
        self._schemas = {self._head: SchemaText("AVRO", text)}

    def key(self, value: bytes, headers: Headers) -> tuple[Key, int]:
        """Read the fingerprint in front of a record."""
        if not value.startswith(MARK) or len(value) < SIZE:
            raise BadMessage(
                f"no schema is named: {beginning(value)}; expected C3 01 and the fingerprint of a"
                " schema, as Avro's single-object encoding has them"
            )
        return value[:SIZE], SIZE

    def schema(self, key: Key) -> SchemaText:
        """The schema of the file, or of an answer."""
        assert isinstance(key, bytes)
        if key not in self._schemas:
            raise BadMessage(
                f"schema {key[len(MARK) :].hex()}: not that of avro_schema, which is"
                f" {self._head[len(MARK) :].hex()}"
            )
        return self._schemas[key]

    def newest(self) -> tuple[bytes, SchemaText]:
        """The schema of the file."""
        return self._head, self._schemas[self._head]

    def head(self, written: SchemaText) -> bytes:
        """Fingerprint prefix of another schema, which is known from now on."""
        head = single(written.text)
        self._schemas[head] = written
        return head


def single(text: str) -> bytes:
    """Prefix of records of a schema in single-object encoding."""
    form = fastavro.schema.to_parsing_canonical_form(fastavro.parse_schema(json.loads(text)))
    return MARK + bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO"))
