"""Codec: the interface of a message format."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw

from stream_can.messages.columns import SegmentTexts
from stream_can.messages.probability_formats import Form, Forms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stream_can.messages.codecs.framing import Key, SchemaText
    from stream_can.messages.records import Headers

    Row = array[float]
else:
    Row = array  # Python 3.11 cannot subscript array, as the documentation would

__all__ = ["Codec", "Prediction"]

SET = "set"
"""Field of an answer for its prediction set, or for the labels decided on."""
DECISION = "decision"
"""Field of an answer for the action that is the cheapest by the costs."""
REST = "rest"
"""Field of an answer for the total probability of the classes that a row of very many does not
list."""
ASKED = "ask"
"""Field of a prediction's message for the reason of its label request."""


class Prediction(msgspec.Struct, gc=False):
    """An opened prediction message: its row, and what writing its answer needs."""

    row: Any
    """An array of m numbers; of sparse rows the likeliest by name."""
    message: Any
    """The message as its format opens it."""
    original: Any
    """The original value of the probabilities."""
    form: Form | None
    """Form of the answer; None for an array."""
    label: Any = None
    """Label in the same message, if looked for: the index of a class, or several labels."""
    weight: float | None = None
    """Weight of that label, if it has one."""
    number: int = -1
    """Index of its row within the batch."""
    segments: SegmentTexts | None = None
    """Values of the declared columns."""
    fault: str | None = None
    """Description of an invalid column value, which counts as not given."""
    ask_reason: str | None = None
    """Reason of its label request, if any."""
    decision: str | None = None
    """The cheapest action, if there are costs."""
    set: list[Any] | None = None
    """Names in its prediction set, the likeliest first, if any; of multilabel rows those decided
    on."""


class Codec(Protocol):
    """Reads and writes messages of one format; the type of opened messages is its own."""

    dropped: frozenset[str]
    """Input headers that do not apply to the output."""
    sets: bool
    """Whether answers may have sets."""

    def key(self, value: bytes, headers: Headers) -> Key | None:
        """Return the key of a message's schema, None where formats have none; BadMessage if
        missing.

        Together with :meth:`prepare` it lets a worker ensure that schemas are known before it
        processes a record.
        """

    def prepare(self, value: bytes, headers: Headers, *, answered: bool) -> None:
        """Look up the schema of a message and, if it will be answered, register the answer's.

        Raises
        ------
        BadMessage
            The schema is unknown, or the answer's refused. Other errors: no registry answers.
        """

    def answer(self, schema: SchemaText) -> SchemaText:
        """Schema of the answers to messages of a schema; BadMessage where there can be none."""

    def open(self, value: bytes, headers: Headers = ()) -> Any:
        """Open a message; BadMessage where it has another format."""

    def find(self, message: Any, path: Sequence[str]) -> Raw | None:
        """JSON text of the value at a path of an opened message; None without one."""

    def probs(self, message: Any, path: Sequence[str], *, answered: bool) -> Any:
        """Find the probabilities, for ``row``; None without them.

        Parameters
        ----------
        answered
            Whether an answer will be written: BadMessage where it cannot be.
        """

    def row(self, original: Any, forms: Forms, where: str) -> tuple[Row, Form | None]:
        """Numbers in class order, and their form; None for an array.

        Raises
        ------
        BadMessage, UnknownClass
            They have other classes, or none of the forms; the text begins with ``where``.
        """

    def names(self, message: Any, path: Sequence[str]) -> list[Any] | None:
        """Classes named by the probabilities at a path; None where they name none."""

    def raw_path(self, path: Sequence[str], raw: str) -> list[str]:
        """Path of the raw probabilities in an answer, given that of the probabilities."""

    def write_all(
        self,
        predictions: Sequence[Prediction],
        rows: NDArray[np.float64],
        path: Sequence[str],
        raw: str,
    ) -> list[bytes]:
        """Answers of predictions with their rows of ``rows``, shape (n, m), and the raw
        probabilities beside them in a field ``raw``, if any."""

    def show(self, value: bytes, headers: Headers = ()) -> Raw:
        """A message as JSON text."""

    def write_label(self, values: dict[str, Any]) -> bytes:
        """Encode a new message of the newest schema; BadMessage where that does not fit the values.

        Parameters
        ----------
        values
            By field name; nested dictionaries for nested fields.
        """
