"""Records that are read, and records to send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from stream_can.errors import StreamCANError

__all__ = ["Output", "Record", "Source"]

Header = tuple[str, bytes | None]
Headers = Sequence[Header]


class Source(Protocol):
    """A record with these attributes, as kafka-python's ConsumerRecord has them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Record(msgspec.Struct, gc=False):
    """One record of the input, for whoever has no ConsumerRecord."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Output(msgspec.Struct, gc=False):
    """One record to send, to the partition that it came from."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp: int
    source: Source | None = None
    """The record that it was made of."""


def headers_of(record: Source) -> list[Header]:
    """A record's headers, in a list of their own."""
    return list(record.headers)


def place(record: Source) -> str:
    """Where a record is, for a message."""
    return f"{record.topic}-{record.partition} offset {record.offset}"


def error_headers(source: Source, error: StreamCANError) -> list[Header]:
    """The headers by which Kafka Connect says where a dead letter came from and why it died."""
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
