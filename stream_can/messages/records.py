"""What a task takes and gives: records in, records to send, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from stream_can.errors import StreamCANError

__all__ = ["Counts", "Output", "Record", "Result", "Source"]

Header = tuple[str, bytes | None]
Headers = Sequence[Header]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Source(Protocol):
    """What a record has; kafka-python's ConsumerRecord does."""

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


class Result(msgspec.Struct):
    """What came of a batch."""

    outputs: list[Output]
    dead_letters: list[Output]
    delays: list[int]
    """Milliseconds from prediction to label, for each label that found its prediction."""
    stopped: tuple[Source, Exception] | None
    """With ``errors="fail"``: the record that could not be read, and why."""
    normalised: int = 0
    """Rows whose sum was off, and that were divided by it."""
    requests: list[Output] = []
    """Label requests, :class:`stream_can.stream.requests.RequestMessage`, where labels are asked
    for."""
    answered: int = 0
    """Labels that came and had been asked for."""
    faults: list[tuple[Source, str]] = []
    """Predictions of which a value of a column is none, and counts as not given; and why."""


class Counts(msgspec.Struct):
    """What a task has taken since its state began."""

    predictions: Count = 0
    """Records of predictions, tombstones and dead letters included."""
    corrected: Count = 0
    labels: Count = 0
    """Records of labels, tombstones and dead letters included."""
    matched: Count = 0
    """Labels learned with their prediction: echoed, or found among the recent ones."""
    unmatched: Count = 0
    """Labels that taught the prior alone."""
    dead_letters: Count = 0
    repeated: Count = 0
    """Labels whose prediction had one before: they teach nothing."""


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
