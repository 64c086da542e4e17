"""Interface between the labelling page and a source of label requests."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple, Protocol

from stream_can.app.labelling.asked import RequestMessage
from stream_can.errors import StreamCANError

__all__ = ["NotOpen", "NotWritten", "OpenRequests", "Pending"]


class NotOpen(StreamCANError):
    """The request does not exist or was answered already."""


class NotWritten(StreamCANError):
    """The label cannot be written now; the request stays open."""


class Pending(NamedTuple):
    """An open request."""

    partition: int
    offset: int
    key: bytes | None
    says: RequestMessage


class OpenRequests(Protocol):
    """A source of label requests; thread-safe."""

    probs_path: list[str]
    raw_path: list[str] | None

    @property
    def classes(self) -> Sequence[Any]: ...

    def first(
        self, n: int, *, oldest: bool = False, without: Container[tuple[int, int]] = ()
    ) -> tuple[int, list[Pending]]: ...

    def still_open(self, places: Container[tuple[int, int]]) -> list[tuple[int, int]]: ...

    def classes_of(self, one: Pending) -> Sequence[Any]: ...

    def answer(self, partition: int, offset: int, column: int) -> None:
        """Answer a request: NotOpen, UnknownClass, NotWritten."""
