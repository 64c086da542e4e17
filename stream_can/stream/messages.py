"""A JSON message <-> a row, a label.

A prediction is a JSON object with the probabilities in one field, in one of the forms of
:mod:`stream_can.stream.forms`. It is written back as the same message with the corrected
probabilities in that field, in the same form, and the original beside it; every other value keeps
its bytes. A key that occurs twice counts where it occurs last, as in every common JSON parser, and
is written once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.method.classes import ClassIndex
from stream_can.stream.columns import Columns, Given
from stream_can.stream.fields import Fields
from stream_can.stream.forms import BadMessage, Form, Forms, LabelScore, Largest
from stream_can.stream.numbers import array_texts, read_array

if TYPE_CHECKING:
    from stream_can.stream.records import Headers

    Row = array[float]
else:
    Row = array  # which Python 3.11 cannot subscript, as the site's generator would

__all__ = ["BadMessage", "Fields", "Label", "Messages", "Prediction"]

WIDEST = 2.2250738585072014e-308
"""The float with the longest text, 23 characters."""

_read_object = msgspec.json.Decoder(dict[str, Raw]).decode
_read_probs = msgspec.json.Decoder(list[float] | dict[str, float] | float).decode
_read_entries = msgspec.json.Decoder(list[LabelScore]).decode
_read_any = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode
# Deep nesting is a RecursionError, a key of bad UTF-8 a UnicodeDecodeError: not msgspec's own.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Prediction(msgspec.Struct, gc=False):
    """A prediction's message, opened: its row, and what it takes to write it back."""

    row: Row
    fields: dict[str, Any]
    inner: dict[str, Any]
    """The object that holds the probabilities: ``fields`` itself, or one inside."""
    original: Raw
    form: Form | None
    """How the answer is written; None for an array."""
    label: int | None = None
    """The column of the label that the same message carries, where that is looked for."""
    number: int = -1
    """Which of the rows of a batch is its own."""
    given: Given | None = None
    """What it gives of the declared columns."""
    fault: str | None = None
    """What is wrong with a value of a column, which counts as not given."""


class Label(msgspec.Struct, gc=False):
    """A label's message, read."""

    index: int
    """The column of the class."""
    row: Row | None
    """The raw prediction it is for, where it echoes one."""
    id: bytes | None
    number: int = -1
    """Which of the rows of a batch is the one it brings; -1 where it brings none."""
    given: Given | None = None
    """What it gives of the declared columns beside the row."""
    by_id: bool = False
    """Whether its id alone says which lane it is for: then it teaches only with its prediction."""


class Messages:
    """Reads and writes the messages of one stream.

    Parameters
    ----------
    classes
        The names of the classes in the order of the columns.
    fields
        Where everything is.
    train
        The training prior, shape (m,), for what the k largest leave; uniform where not given.
    columns
        The declared columns; see ``stream_can.stream.columns``.

    Raises
    ------
    ValueError
        Where two classes have the same name in JSON, such as 1 and "1", or a column is no place
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

    def __init__(
        self,
        classes: Sequence[Any],
        fields: Fields | None = None,
        train: NDArray[np.float64] | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.classes, self.fields = tuple(classes), fields or Fields()
        self._m = len(self.classes)
        self._forms = Forms(self.classes, train)
        self.slack = 24 * self._m + self._forms.names_size
        """Bytes that an output has at most, beyond twice those of its input."""
        self._index = ClassIndex(self.classes, "json")
        self.probs_path = self.fields.probs.split(".")
        *self._parents, self._probs = self.probs_path
        self._raw = self.fields.raw
        self.raw_path = [*self._parents, self._raw] if self._raw else None
        self.label_path = self.fields.label.split(".")
        self._id_path = None if self.fields.id is None else self.fields.id.split(".")
        others = {self.fields.probs: "the probabilities", self.fields.label: "the label"}
        if self.raw_path:
            others[".".join(self.raw_path)] = "the original probabilities"
        self._columns = Columns(columns, others) if columns else None

    def read(self, value: bytes, headers: Headers = ()) -> Prediction:
        """Open the message of a prediction; ``headers`` are those of its record.

        The row has m numbers, not yet checked to be probabilities: that rule is the Corrector's.

        Raises
        ------
        BadMessage
            Where it is not JSON, or has no probabilities of one of the three forms.
        UnknownClass
            Where an object of probabilities names a class that there is not.
        """
        return self.read_object(open_object(value), headers)

    def read_object(self, fields: dict[str, Any], headers: Headers = ()) -> Prediction:
        """:meth:`read` of a message whose fields are opened."""
        inner = fields
        for name in self._parents:
            if name not in inner:
                raise BadMessage(f"no field {self.fields.probs!r}")
            try:
                inside = _read_object(inner[name])
            except _UNREADABLE as error:
                raise BadMessage(f"{self.fields.probs}: at {name!r}: {error}") from None
            inner[name] = inside
            inner = inside
        original = inner.get(self._probs)
        if original is None:
            raise BadMessage(f"no field {self.fields.probs!r}")
        row, form = self._read_probs(original, self.fields.probs)
        prediction = Prediction(row, fields, inner, original, form)
        if self._columns is not None:
            prediction.given, prediction.fault = self._columns.read(self.find, fields, headers)
        return prediction

    def _read_probs(self, text: Raw, where: str) -> tuple[array[float], Form | None]:
        """The row in a field, and its form: None for a plain array, which compiled code reads."""
        if (row := read_array(text, self._m)) is not None:
            return row, None
        try:
            probs = _read_probs(text)
        except _UNREADABLE as error:
            try:
                probs = _read_entries(text)
            except _UNREADABLE:
                raise BadMessage(f"{where}: {error}") from None
        try:
            numbers, form = self._forms.read(probs)
        except (BadMessage, UnknownClass) as error:
            raise type(error)(f"{where}: {error}") from None
        return array("d", numbers), form

    def write(self, prediction: Prediction, row: NDArray[np.float64]) -> bytes:
        """The message with ``row`` in place of its probabilities, and the original kept beside it.

        ``row`` must be finite: JSON has no NaN, and msgspec would write null.
        """
        return self.write_all([prediction], row[None])[0]

    def write_all(
        self, predictions: Sequence[Prediction], rows: NDArray[np.float64]
    ) -> list[bytes]:
        """:meth:`write` for each prediction and row of ``rows``, shape (n, m)."""
        name, raw, out = self._probs, self._raw, []
        for i, (prediction, text) in enumerate(zip(predictions, array_texts(rows), strict=True)):
            inner, form = prediction.inner, prediction.form
            inner[name] = Raw(text) if form is None else form.of(rows[i].tolist())
            if raw:
                inner[raw] = prediction.original
            out.append(_write(prediction.fields))
        return out

    def largest(self, prediction: Prediction) -> int:
        """Bytes that :meth:`write` makes at most, whatever the row."""
        names = self._forms.names_size if isinstance(prediction.form, Largest) else 0
        return len(self.write(prediction, np.full(self._m, WIDEST))) + names

    def raw_in(self, prediction: Prediction) -> Row | None:
        """The original probabilities in the message of an output; None where it has none.

        Raises
        ------
        BadMessage, UnknownClass
            As for :meth:`read`.
        """
        text = prediction.inner.get(self._raw) if self._raw else None
        return None if text is None else self._read_probs(text, self._raw)[0]

    def read_label(self, value: bytes, key: bytes | None = None, headers: Headers = ()) -> Label:
        """Read the message of a label.

        Raises
        ------
        BadMessage
            Where it is not JSON, has no label, or echoes a prediction that cannot be read.
        UnknownClass
            Where the label is none of the classes.
        """
        return self.read_label_object(open_object(value), key, headers)

    def read_label_object(
        self, fields: dict[str, Any], key: bytes | None = None, headers: Headers = ()
    ) -> Label:
        """:meth:`read_label` of a message whose fields are opened."""
        text = self.find(fields, self.label_path)
        if text is None:
            raise BadMessage(f"no field {self.fields.label!r}")
        index = self._class_of(text)
        echo = None if self.raw_path is None else self.find(fields, self.raw_path)
        label = Label(index, None, self.id_of(fields, key))
        if echo is not None and bytes(echo) != b"null":
            label.row, _ = self._read_probs(echo, self._raw)
            if self._columns is not None:
                label.given, _ = self._columns.read(self.find, fields, headers)
        return label

    def label_in(self, fields: dict[str, Any]) -> int | None:
        """The column of the label in an opened message; None where it has none, or null.

        Raises
        ------
        BadMessage, UnknownClass
            As for :meth:`read_label`.
        """
        text = self.find(fields, self.label_path)
        return None if text is None or bytes(text) == b"null" else self._class_of(text)

    def _class_of(self, text: Raw) -> int:
        """The index of the class that a label names; BadMessage, UnknownClass where it does not."""
        try:
            label = _read_any(text)
        except _UNREADABLE as error:
            raise BadMessage(f"{self.fields.label}: {error}") from None
        if not isinstance(label, str | int | float):
            what = "null" if label is None else type(label).__name__
            raise BadMessage(f"{self.fields.label}: {what}, expected the name of a class")
        try:
            return self._index[label]
        except UnknownClass:
            shown = bytes(text)[:80].decode(errors="replace")
            raise UnknownClass(
                f"{self.fields.label}: {shown} is none of the {self._m} classes"
            ) from None

    def names_in(self, fields: dict[str, Any]) -> list[Any] | None:
        """The classes that the probabilities of an opened message name; None where they do not."""
        text = self.find(fields, self.probs_path)
        for read in (_read_probs, _read_entries):
            try:
                probs = read(text)
            except (TypeError, *_UNREADABLE):
                continue
            if isinstance(probs, dict):
                return list(probs)
            if isinstance(probs, list) and all(isinstance(one, LabelScore) for one in probs):
                return [one.label for one in probs]
        return None

    def id_of(self, fields: dict[str, Any], key: bytes | None) -> bytes | None:
        """What joins the message: its key, or the text of its id field; None where it has none."""
        if self._id_path is None:
            return key
        text = self.find(fields, self._id_path)
        if text is None:
            return None
        raw = bytes(text)
        if raw[:1] == b'"':
            name: str = _read_any(raw)
            return name.encode()
        return None if raw == b"null" else raw

    @staticmethod
    def find(fields: dict[str, Any], path: list[str]) -> Any:
        """The text of the value at a path, None where there is none."""
        value: Any = fields.get(path[0])
        if len(path) == 1:
            return value
        for name in path[1:]:
            if type(value) is Raw:
                try:
                    value = _read_object(value)
                except _UNREADABLE:
                    return None
            if value is None:
                return None
            value = value.get(name)
        return value


def open_object(value: bytes) -> dict[str, Any]:
    """The fields of a JSON object, their values still text; BadMessage where it is none."""
    try:
        if not value.isascii():
            value.decode()  # msgspec passes over the bytes inside strings, and would send them on
        return _read_object(value)
    except _UNREADABLE as error:
        raise BadMessage(f"not a JSON object: {error}") from None
