"""Interface between the labelling page and a source of label requests."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple, Protocol

from stream_can.app.labelling.request_message import RequestMessage
from stream_can.errors import StreamCANError, UnknownClass
from stream_can.row_kinds import row_kind

Chosen = int | str | list[int]
"""An answer: the index of a class; of multilabel rows the indices of all that the row has; of
sparse rows also a name."""


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

    rows: str
    """Name of the kind of rows."""
    probs_path: list[str]
    raw_path: list[str] | None

    @property
    def classes(self) -> Sequence[Any]: ...

    def first(
        self, n: int, *, oldest: bool = False, without: Container[tuple[int, int]] = ()
    ) -> tuple[int, list[Pending]]: ...

    def still_open(self, places: Container[tuple[int, int]]) -> list[tuple[int, int]]: ...

    def classes_of(self, request: Pending) -> Sequence[Any]: ...

    def knows(self, name: str) -> bool:
        """Whether there is a class of this name."""

    def answer(self, partition: int, offset: int, chosen: Chosen) -> None:
        """Answer a request: NotOpen, UnknownClass, NotWritten."""


def label_of(chosen: Chosen, classes: Sequence[Any], rows: str) -> Any:
    """Translate an answer into the label of a message.

    Raises
    ------
    UnknownClass
        There is no such class, or the answer belongs to another kind of rows.
    """
    several = row_kind(rows).several_labels
    columns = chosen if isinstance(chosen, list) else [chosen]
    if isinstance(chosen, list) != several or not all(
        isinstance(column, int) and 0 <= column < len(classes) for column in columns
    ):
        raise UnknownClass(f"class {chosen}: there are {len(classes)}")
    names = [classes[column] for column in columns]  # type: ignore[index]
    return names if several else names[0]
