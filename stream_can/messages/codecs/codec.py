"""The interface of a format of messages."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw

from stream_can.messages.columns import Given
from stream_can.messages.forms import Form, Forms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stream_can.messages.codecs.framing import Key, SchemaText
    from stream_can.messages.records import Headers

    Row = array[float]
else:
    Row = array  # which Python 3.11 cannot subscript, as the site's generator would

__all__ = ["Codec", "Prediction"]

SET = "set"
"""The name, in the answer to a prediction, of the classes in its prediction set, or of the labels
that it is said to have."""
REST = "rest"
"""The name, beside the probabilities of the likeliest of very many classes, of what all others have
together."""
ASKED = "ask"
"""The name, in the message of a prediction whose label is asked for, of the reason."""


class Prediction(msgspec.Struct, gc=False):
    """A prediction's message, opened: its row, and what it takes to write it back."""

    row: Any
    """An array of m numbers; of very many classes the likeliest by name."""
    message: Any
    """As its format opens it."""
    original: Any
    """The value in the place of the probabilities."""
    form: Form | None
    """How the answer is written; None for an array."""
    label: Any = None
    """Label that the same message carries, where that is looked for: the column of a class, or
    several labels."""
    number: int = -1
    """Which of the rows of a batch is its own."""
    given: Given | None = None
    """Values of the declared columns."""
    fault: str | None = None
    """Fault of a column's value, which counts as not given."""
    asked: str | None = None
    """Why its label is asked for, where it is."""
    set: list[Any] | None = None
    """The names of its prediction set, the likeliest first, where there is one; of several labels
    those that it is said to have."""


class Codec(Protocol):
    """Reads and writes the messages of one format; what it opens is its own."""

    dropped: frozenset[str]
    """Headers of an input that are not true of its output."""

    def key(self, value: bytes, headers: Headers) -> Key | None:
        """Find the name of a message's schema, None where it has none; BadMessage where it should.

        With :meth:`prepare` it lets a worker know before it takes a record that nobody will have to
        be asked for its schema.
        """

    def prepare(self, value: bytes, headers: Headers, *, answered: bool) -> None:
        """Ask for the schema of a message, and where it is to be answered make the answer's known.

        Raises
        ------
        BadMessage
            There is none, or the answer's is refused. Any other error: nobody answers.
        """

    def answer(self, schema: SchemaText) -> SchemaText:
        """The schema of the answers to messages of a schema; BadMessage where there can be none."""

    def open(self, value: bytes, headers: Headers = ()) -> Any:
        """Open a message; BadMessage where it is none of this format."""

    def find(self, message: Any, path: Sequence[str]) -> Raw | None:
        """The JSON text of the value at a path of an opened message; None where there is none."""

    def probs(self, message: Any, path: Sequence[str], *, answered: bool) -> Any:
        """Find the value in the place of the probabilities, for ``row``; None where there is none.

        Parameters
        ----------
        answered
            Whether the message is to be written back: BadMessage where it cannot be.
        """

    def row(self, original: Any, forms: Forms, where: str) -> tuple[Row, Form | None]:
        """The numbers in the order of the classes, and the form they came in; None for an array.

        Raises
        ------
        BadMessage, UnknownClass
            They are none of these classes, or not in one of the forms; the text says ``where``.
        """

    def names(self, message: Any, path: Sequence[str]) -> list[Any] | None:
        """The classes that the probabilities at a path name; None where they do not."""

    def raw_path(self, path: Sequence[str], raw: str) -> list[str]:
        """Where an answer keeps the original of the probabilities at a path."""

    def write_all(
        self,
        predictions: Sequence[Prediction],
        rows: NDArray[np.float64],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """The message of each prediction with its row of ``rows``, shape (n, m), in place of the
        probabilities at a path, and the original beside it under the name ``raw``, if any."""

    def show(self, value: bytes, headers: Headers = ()) -> Raw:
        """A message as JSON text."""

    def write_label(self, values: dict[str, Any]) -> bytes:
        """A new message, of the newest schema; BadMessage where that does not fit the values.

        Parameters
        ----------
        values
            By the names of fields; a dictionary for those that have fields of their own.
        """
