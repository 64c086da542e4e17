"""Input and output records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from stream_can.errors import StreamCANError

Header = tuple[str, bytes | None]
Headers = Sequence[Header]


class Source(Protocol):
    """A record with the attributes of kafka-python's ConsumerRecord."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Record(msgspec.Struct, gc=False):
    """An input record from a source other than kafka-python."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Line(msgspec.Struct, gc=False):
    """A message that is a line of a file or the body of a request."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()


class Output(msgspec.Struct, gc=False):
    """An output record, for the partition of its input."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp: int
    source: Source | None = None
    """Its input record."""


def headers_of(record: Source) -> list[Header]:
    """Headers of a record, as a new list."""
    return list(record.headers)


def place(record: Source) -> str:
    """Position of a record, for messages."""
    return f"{record.topic}-{record.partition} offset {record.offset}"


def error_headers(source: Source, error: StreamCANError) -> list[Header]:
    """Headers that describe a dead letter's origin and error, as Kafka Connect writes them."""
    values = {
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(source.offset),
        "exception.class.name": error.full_name,
        "exception.message": str(error)[:1000],
    }
    return [
        (f"__connect.errors.{name}", text.encode(errors="replace")) for name, text in values.items()
    ]


def dead_letter_of(record: Source, error: StreamCANError) -> Output:
    """The dead letter of a record: its key, value, headers and time, and what is wrong with it."""
    headers = headers_of(record) + error_headers(record, error)
    return Output(record.key, record.value, headers, record.timestamp, record)


def reason_of(letter: Output) -> str:
    """The message of the error in a dead letter, see :func:`error_headers`."""
    return (dict(letter.headers)["__connect.errors.exception.message"] or b"").decode()
