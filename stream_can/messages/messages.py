"""Messages: bytes to rows and labels, and back.

A prediction is a message with the probabilities in one field, in one of the forms of
:mod:`stream_can.messages.probability_formats`. Its answer is the same message with the corrected
probabilities in that field, in the same form, and the raw ones beside it; all other values are
unchanged. The serialisation is the format's: see :mod:`stream_can.messages.codecs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.errors import StreamCANError, UnknownClass
from stream_can.messages.codecs.codec import DECISION, Codec, Prediction
from stream_can.messages.codecs.json import JsonCodec
from stream_can.messages.columns import Columns
from stream_can.messages.fields import Fields
from stream_can.messages.formats import JSON, Formats
from stream_can.messages.ids import IdPlace
from stream_can.messages.label import Label, LabelParser
from stream_can.messages.ordinary_reader import OrdinaryReader
from stream_can.messages.probability_formats import BadMessage, Forms, Largest, PlatformForm
from stream_can.messages.row_parser import RowParser
from stream_can.method.arrays import LEAST_WEIGHT, MOST_WEIGHT
from stream_can.method.checks import all_fine, bad_rows, within
from stream_can.method.classes import ClassIndex
from stream_can.method.costs import Costs
from stream_can.method.logits import of_logits
from stream_can.method.normalise import divided
from stream_can.method.rows import rounded
from stream_can.method.weights import weight_of_label

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

__all__ = ["BadMessage", "Fields", "Messages", "Prediction"]

WIDEST = 2.2250738585072014e-308
"""The float with the longest text, 23 characters."""
FINITE = np.array([[-1.0], [1.0]]) * np.finfo(np.float64).max


class Messages:
    """Reads and writes the messages of a stream, of dense rows; a subclass, those of another kind.

    Parameters
    ----------
    classes
        Names of the classes in column order.
    fields
        Fields of the messages.
    train
        Training prior, shape (m,), for the rest beyond the k largest; uniform by default.
    columns
        Names of the declared columns; see ``stream_can.messages.columns``.
    formats
        Formats of the messages.
    numbering
        What numbers the classes of rows as they appear, where they are not declared.

    Raises
    ------
    ValueError
        Two classes have the same name in JSON, such as 1 and "1", or a column is not a valid place
        in a message.

    Examples
    --------
    >>> messages = Messages(["fraud", "fine"])
    >>> prediction = messages.read(b'{"id": 7, "probs": [0.4, 0.6]}')
    >>> prediction.row
    array('d', [0.4, 0.6])
    >>> messages.write(prediction, np.array([0.25, 0.75]))
    b'{"id":7,"probs":[0.25,0.75],"probs_raw":[0.4, 0.6]}'
    >>> messages.read_label(b'{"label": "fine"}', key=b"7").index
    1
    """

    of_scores = False
    """Whether each number of a row is a score of its own, and none may be missing."""
    _decision_size = 0
    """Most bytes of a decision in an answer."""
    may_be_ordinary = True
    """Whether compiled code can read such messages, see :attr:`ordinary`."""

    def __init__(
        self,
        classes: Sequence[Any],
        fields: Fields | None = None,
        train: NDArray[np.float64] | None = None,
        columns: Sequence[str] = (),
        formats: Formats = JSON,
        numbering: Any = None,
    ) -> None:
        self.numbering = numbering
        self.classes, self.fields = tuple(classes), fields or Fields()
        self.predictions, self.labels, _ = formats
        self._open, self._probs = self.predictions.open, self.predictions.probs
        self._where = self.fields.probs
        self._m = len(self.classes)
        self._forms = Forms(
            self.classes, train, of_scores=self.of_scores, logits=self.fields.logits
        )
        self._rows = RowParser(self._forms, self.widest)
        self._row: Any = self.predictions.row
        self.slack = 24 * self._m + self._forms.names_size
        """Upper bound of an output's bytes beyond twice those of its input."""
        self._costs = Costs(self.classes, self.fields.costs) if self.fields.costs else None
        if self._costs is not None:
            longest = max(len(msgspec.json.encode(name)) for name in self._costs.actions)
            self._decision_size = longest + len(DECISION) + 4
            self.slack += self._decision_size
        self._index = ClassIndex(self.classes, "json")
        self.probs_path, raw = self.fields.probs.split("."), self.fields.raw
        self.raw_path = self.predictions.raw_path(self.probs_path, raw) if raw else None
        self.echo_path = self.labels.raw_path(self.probs_path, raw) if raw else None
        self.label_path = self.fields.label.split(".")
        self._id = IdPlace(self.fields.id)
        self._weight = IdPlace(self.fields.weight) if self.fields.weight else None
        other_fields = {self.fields.probs: "the probabilities", self.fields.label: "the label"}
        if self.raw_path:
            other_fields[".".join(self.raw_path)] = "the original probabilities"
        self._columns = Columns(columns, other_fields) if columns else None
        self._label_parser = LabelParser(self.fields, self._m, self._index_of)
        is_json = {type(self.predictions), type(self.labels)} == {JsonCodec}
        self.ordinary = OrdinaryReader(
            self.classes, self.fields, self._label_parser.parse,
            possible=self.may_be_ordinary and is_json and not columns
            and self._costs is None and self._weight is None,
        )  # fmt: skip
        """Reads the messages that compiled code can read."""

    @property
    def widest(self) -> int:
        """Largest number of classes of a row."""
        return self._m

    def read(self, value: bytes, headers: Headers = ()) -> Prediction:
        """Parse a prediction's message; ``headers`` are its record's.

        The row has m numbers, which the Corrector checks later.

        Raises
        ------
        BadMessage
            It is not JSON, or has no probabilities in one of the forms.
        UnknownClass
            An object of probabilities names an unknown class.
        """
        return self.read_opened(self._open(value, headers), headers)

    def open(self, value: bytes, headers: Headers = (), *, label: bool = False) -> Any:
        """Open a message of a prediction or label without parsing it; BadMessage where that
        fails."""
        return (self.labels if label else self.predictions).open(value, headers)

    def read_opened(self, message: Any, headers: Headers = ()) -> Prediction:
        """:meth:`read` of an opened message."""
        original = self._probs(message, self.probs_path, answered=True)
        if original is None:
            raise BadMessage(f"no field {self._where!r}")
        row, form = self._rows.parse(self._row, original, self._where)
        prediction = Prediction(row, message, original, form)
        if self._columns is not None:
            find = self.predictions.find
            prediction.segments, prediction.fault = self._columns.values_in(find, message, headers)
        return prediction

    def write(self, prediction: Prediction, row: NDArray[np.float64]) -> bytes:
        """The message with ``row`` in place of its probabilities, and the raw ones beside it.

        ``row`` must be finite: JSON has no NaN.
        """
        return self.write_all([prediction], row[None])[0]

    def write_all(self, predictions: Sequence[Prediction], rows: Any) -> list[bytes]:
        """:meth:`write` for each prediction and row of ``rows``, shape (n, m), with the cheapest
        action where there are costs."""
        if self._costs is not None:
            for prediction, action in zip(predictions, self._costs.named(rows), strict=True):
                prediction.decision = action
        return self.predictions.write_all(predictions, rows, self.probs_path, self.fields.raw)

    def finished(self, rows: Any) -> Any:
        """Round corrected rows to the output's digits.

        Raises
        ------
        StreamCANError
            A row is not finite, which JSON would write as null.
        """
        digits = self.fields.digits
        if digits is not None:
            rows = self._rounded(rows, digits)
        if not within(rows, FINITE):
            raise StreamCANError("a corrected row is not finite: the corrector's state is damaged")
        return rows

    def _rounded(self, rows: Any, digits: int) -> Any:
        return rounded(rows, digits)

    def as_lists(self, row: Any, sent: Any) -> tuple[list[float], list[float], list[Any] | None]:
        """A row and its corrected row as lists of numbers, and their classes where these are not
        those of all rows."""
        return row.tolist(), sent.tolist(), None

    def largest(self, prediction: Prediction) -> int:
        """Upper bound of the bytes of :meth:`write` for any row."""
        names = isinstance(prediction.form, Largest | PlatformForm) + self.predictions.sets
        written = self.write(prediction, np.full(self._m, WIDEST))
        return len(written) + names * self._forms.names_size + self._decision_size

    def read_label(self, value: bytes, key: bytes | None = None, headers: Headers = ()) -> Label:
        """Parse a label's message.

        Raises
        ------
        BadMessage
            It is not JSON, has no label, or echoes an unreadable prediction.
        UnknownClass
            The label is not one of the classes.
        """
        return self.read_opened_label(self.labels.open(value, headers), key, headers)

    def read_opened_label(
        self, message: Any, key: bytes | None = None, headers: Headers = ()
    ) -> Label:
        """:meth:`read_label` of an opened message."""
        codec = self.labels
        text = codec.find(message, self.label_path)
        if text is None:
            raise BadMessage(f"no field {self.fields.label!r}")
        index = self._label_parser.parse(text)
        label = Label(index, None, self._id.id_in(codec.find, message, key, headers))
        label.weight = self.weight_in(codec, message, headers)
        if self.echo_path is not None:
            echo = codec.probs(message, self.echo_path, answered=False)
            if echo is not None:
                label.row, _ = self._rows.parse(self._echoed(codec), echo, self.fields.raw)
                if self._columns is not None:
                    label.segments, _ = self._columns.values_in(codec.find, message, headers)
        return label

    def weight_in(self, codec: Codec, message: Any, headers: Headers) -> float | None:
        """Weight of the label in an opened message; None without one, BadMessage where it is
        none."""
        if self._weight is None:
            return None
        text = self._weight.text_in(codec.find, message, headers)
        if text is None or text == b"null":
            return None
        try:
            return weight_of_label(float(text.strip(b'"')))
        except ValueError:
            shown = text[:80].decode(errors="replace")
            raise BadMessage(
                f"{self.fields.weight}: {shown}, expected a weight, a number from"
                f" {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
            ) from None

    def _echoed(self, codec: Codec) -> Any:
        """What reads a row that a label echoes."""
        return codec.row

    def label_of(self, index: Any) -> Any:
        """Convert `Label.index` for `Learner.label`: from the index of a class to its name."""
        return self.classes[index]

    def label_in(self, message: Any) -> Any:
        """The label in a prediction's message, as for `Label.index`; None where it is missing or
        null.

        Raises
        ------
        BadMessage, UnknownClass
            As for :meth:`read_label`.
        """
        return self._label_parser.parse_optional(self.predictions.find(message, self.label_path))

    def _index_of(self, label: Any, text: Raw) -> Any:
        """Convert a parsed label to `Label.index`; ``text`` is how it was written."""
        if label is None:
            raise BadMessage(f"{self.fields.label}: null, expected the name of a class")
        try:
            return self._index.column(label)
        except UnknownClass:
            shown = bytes(text)[:80].decode(errors="replace")
            raise UnknownClass(
                f"{self.fields.label}: {shown} is none of the {self._m} classes"
            ) from None

    def rows_of(self, rows: Sequence[Any]) -> tuple[Any, dict[int, str], int]:
        """Stack parsed rows, as probabilities; also return faults, {row: reason}, and the number of
        rows divided by their sum."""
        P, off = np.frombuffer(bytearray().join(rows)).reshape(-1, self._m), 0
        if self.fields.logits:
            return *of_logits(P, several=self.of_scores), off
        bad: dict[int, str] = {}
        if not all_fine(P):
            P, off = divided(P, self.fields.normalise)
            bad = bad_rows(P)
        return P, bad, off

    def names_in(self, message: Any) -> list[Any] | None:
        """Classes named by an opened message's probabilities; None where they name none."""
        names = self.predictions.names(message, self.probs_path)
        text = self.predictions.find(message, self.probs_path) if names is None else None
        probs = self._rows.ordinary(text)
        return names if probs is None else self.predictions.names({"probs": probs}, ["probs"])

    def id_of(self, message: Any, key: bytes | None, headers: Headers = ()) -> bytes | None:
        """Id of a prediction: the record's key, a header, or the text of the id field; None without
        one, or where it is a float that no label could name."""
        try:
            return self._id.id_in(self.predictions.find, message, key, headers)
        except BadMessage:
            return None

    def id_of_label(self, message: Any, key: bytes | None, headers: Headers = ()) -> bytes | None:
        """:meth:`id_of` for a label's opened message; BadMessage where it is such a float."""
        return self._id.id_in(self.labels.find, message, key, headers)
