"""The formats in which messages come.

What a format knows is where in a message something stands, what numbers are there, and how they are
replaced. What it means (a row of the classes, a label, an id, the name of a model) is the same in
all formats, and stands in :mod:`stream_can.stream.messages`.

- ``json``: JSON objects, behind the five bytes of a schema registry too
- ``avro``: Avro records, of which only the bytes of the probabilities change
- ``walk``: where in an Avro record something stands, compiled
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stream_can.stream.codecs.framing import Key, SchemaText
    from stream_can.stream.forms import Form, Forms
    from stream_can.stream.messages import Prediction
    from stream_can.stream.records import Headers

    Row = array[float]

__all__ = ["ASKED", "Codec"]

ASKED = "ask"
"""The name, in the message of a prediction whose label is asked for, of the reason."""


class Codec(Protocol):
    """Reads and writes the messages of one format; what it opens is its own."""

    dropped: frozenset[str]
    """Headers of an input that are not true of its output."""

    def key(self, value: bytes, headers: Headers) -> Key | None:
        """What a message calls its schema by, None where it has none; BadMessage where it should.

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
        """What stands where the probabilities are, for ``row``; None where nothing does.

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
