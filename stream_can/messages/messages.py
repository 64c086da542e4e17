"""Messages: bytes to rows and labels, and back.

A prediction is a message with the probabilities in one field, in one of the forms of
:mod:`stream_can.messages.probability_formats`. Its answer is the same message with the corrected
probabilities in that field, in the same form, and the raw ones beside it; all other values are
unchanged. The serialisation is the format's: see :mod:`stream_can.messages.codecs`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.errors import StreamCANError, UnknownClass
from stream_can.messages.codecs.codec import ASKED, DECISION, Codec, Prediction
from stream_can.messages.codecs.json import MANY, JsonCodec
from stream_can.messages.columns import Columns, SegmentTexts, header_bytes
from stream_can.messages.counting import elements
from stream_can.messages.faults import UNREADABLE, json_fault
from stream_can.messages.fields import HEADER, Fields
from stream_can.messages.ids import id_of_json
from stream_can.messages.ordinary import Ordinary, OrdinaryBatch
from stream_can.messages.platforms import PlainRow, plain_row
from stream_can.messages.probability_formats import BadMessage, Forms, Largest, PlatformForm
from stream_can.method.checks import all_fine, bad_rows, within
from stream_can.method.class_names import json_name
from stream_can.method.classes import ClassIndex, is_missing
from stream_can.method.costs import Costs
from stream_can.method.normalise import divided
from stream_can.method.rows import rounded
from stream_can.row_kinds import part

if TYPE_CHECKING:
    from stream_can.messages.records import Headers

    Row = array[float]
else:
    Row = array  # Python 3.11 cannot subscript array, as the documentation would

__all__ = [
    "BadMessage", "Fields", "Formats", "Label", "Messages", "NoLabel", "Numbering", "Prediction",
    "messages_of",
]  # fmt: skip

WIDEST = 2.2250738585072014e-308
"""The float with the longest text, 23 characters."""

FEW = 16
"""Messages that are not worth a batch of their own."""
FINITE = np.array([[-1.0], [1.0]]) * np.finfo(np.float64).max

_read_any = msgspec.json.Decoder().decode
_Name = str | int | float | bool | None
_read_flat = msgspec.json.Decoder(list[_Name] | dict[str, _Name] | _Name).decode
LONG = 10_000
"""Bytes of a label beyond which it is bounded before it is read."""


class NoLabel(BadMessage):
    """A message says, by `Fields.label_map`, that there is no label."""


class Formats(NamedTuple):
    """Codecs of predictions, whose answers they write too, and of labels."""

    predictions: Codec = JsonCodec()
    labels: Codec = JsonCodec()
    by_topic: Mapping[str, Codec] = {}
    """Those of labels in further topics."""

    def of_labels(self, topic: str) -> Formats:
        """Those with the labels of a topic."""
        return self._replace(labels=self.by_topic.get(topic, self.labels))

    @property
    def codecs(self) -> list[Codec]:
        """All of them."""
        return [self.predictions, self.labels, *self.by_topic.values()]


JSON = Formats()


class Label(msgspec.Struct, gc=False):
    """A parsed label message."""

    index: Any
    """Index of the class; of other kinds of rows the argument of `Learner.label`."""
    row: Row | None
    """The raw prediction that it echoes, if any."""
    id: bytes | None
    number: int = -1
    """Index among a batch's rows of the one that it carries; -1 without one."""
    segments: SegmentTexts | None = None
    """Values of the declared columns beside that row."""
    by_id: bool = False
    """Whether it names no model: then it teaches only with its prediction."""


class Numbering(Protocol):
    """Assigns numbers to very many classes as they appear."""

    @property
    def numbered(self) -> bool:
        """Whether classes are numbers themselves."""

    def checked(self, row: Mapping[Any, float]) -> Any:
        """Check a row and number its classes; InvalidPrediction where it is invalid."""

    def number(self, name: Any) -> int:
        """Return the number of a class; UnknownClass where it is invalid."""

    def known(self, text: str) -> Any:
        """Find a class by its name as text; UnknownClass where no row or label had it."""


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
    """Whether compiled code can read such messages, see :meth:`read_ordinary`."""

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
        self._forms = Forms(self.classes, train, of_scores=self.of_scores)
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
        id = self.fields.id
        self._id_header = id[len(HEADER) :] if id and id.startswith(HEADER) else None
        self._by_key, self._id_path = id is None, (id or "").split(".")
        other_fields = {self.fields.probs: "the probabilities", self.fields.label: "the label"}
        if self.raw_path:
            other_fields[".".join(self.raw_path)] = "the original probabilities"
        self._columns = Columns(columns, other_fields) if columns else None
        self._known: dict[bytes, int] = {}
        """Text of a label -> index of its class."""

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
        row, form = self._read_row(self._row, original, self._where)
        prediction = Prediction(row, message, original, form)
        if self._columns is not None:
            find = self.predictions.find
            prediction.segments, prediction.fault = self._columns.values_in(find, message, headers)
        return prediction

    def _read_row(self, read: Any, original: Any, where: str) -> tuple[Any, Any]:
        """Read a row and its form; where it has no ordinary one, as platforms write it."""
        try:
            return read(original, self._forms, where)  # type: ignore[no-any-return]
        except (BadMessage, UnknownClass):
            if type(original) is not Raw or (plain := self._plain(original)) is None:
                raise
            row, form = read(Raw(msgspec.json.encode(plain.probs)), self._forms, where)
            return row, PlatformForm(form, plain.back)

    def _plain(self, original: Raw) -> PlainRow | None:
        """Probabilities that are written as platforms do; None for others, and very long ones."""
        most = 2 * (self.widest + MANY)
        text = bytes(original)
        if elements(original, most) > most or (text[:1] == b'"' and text.count(b",") > most):
            return None
        try:
            return plain_row(_read_any(original))
        except UNREADABLE:
            return None

    @cached_property
    def _ordinary(self) -> Ordinary | None:
        """Compiled reader; None where messages are not JSON objects with all fields at the top."""
        fields, columns = self.fields, self._columns
        formats = {type(self.predictions), type(self.labels)}
        others = columns is not None or self._costs is not None
        if formats != {JsonCodec} or not self.may_be_ordinary or others:
            return None
        names = [name for name in (fields.probs, fields.raw, fields.label, fields.id) if name]
        if len({*names}) < len(names) or any(
            "." in name or name.startswith(HEADER) or _plain(name) is None for name in names
        ):
            return None
        raw = msgspec.json.encode(fields.raw) if fields.raw else None
        id = None if fields.id is None else fields.id.encode()
        classes = tuple(_plain(json_name(name)) for name in self.classes)
        return Ordinary(classes, fields.probs.encode(), raw, fields.label.encode(), id)

    def runs(
        self, values: Sequence[bytes | None], *, labelled: bool = False, labels: bool = True
    ) -> Iterator[tuple[int, int, OrdinaryBatch | None]]:
        """Cut messages into runs, (first, last, batch): ordinary ones, which are read together, and
        others without a batch. These get longer while others are frequent. See `read_ordinary`."""
        at, n, stretch = 0, len(values), FEW
        while at < n:
            batch = self.read_ordinary(values[at:], labelled=labelled, labels=labels)
            if batch is None:
                yield at, n, None
                return
            size = batch.size
            if size >= FEW or size == n - at:
                yield at, at + size, batch
                if size > 4 * stretch:
                    stretch = FEW
                at, size = at + size, 0
            if at < n:
                last = min(n, at + size + stretch)
                yield at, last, None
                at, stretch = last, 2 * stretch

    def read_ordinary(
        self, values: Sequence[bytes | None], *, labelled: bool = False, labels: bool = True
    ) -> OrdinaryBatch | None:
        """Read messages up to the first that is not ordinary: objects with probabilities that are
        valid, perhaps divided by their sum, or a label of a known class, which it names.

        Parameters
        ----------
        values
            The messages; None is not ordinary.
        labelled
            Whether predictions may carry their own label.
        labels
            Whether labels are ordinary.

        Returns
        -------
        The batch of those before it, perhaps empty; None where none of such messages is ordinary.
        """
        batch = None if self._ordinary is None else self._ordinary.read(values, labelled)
        if batch is None:
            return None
        end = batch.size
        if not all_fine(batch.rows):
            batch.rows, batch.off = divided(batch.rows, self.fields.normalise)
            if bad := bad_rows(batch.rows):
                end = batch.line_of(min(bad))
        if batch.labels and not labels:
            end = min(end, batch.labels[0][2])
            batch.labels.clear()
        known = self._known
        for k, (id, text, due) in enumerate(batch.labels):
            index = known.get(text)
            if index is None:
                try:
                    index = self._class_of(Raw(text))
                except (BadMessage, UnknownClass):
                    end = min(end, due - 1 if labelled else due + k)
                    break
                if len(known) > 4 * self._m + 100:  # 1, 1.0, 1.00 ...
                    known.clear()
                known[text] = index
            batch.labels[k] = id, self.classes[index], due
        if end < batch.size:
            return self.read_ordinary(values[:end], labelled=labelled, labels=labels)
        return batch

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

    def read_sent(
        self, value: bytes, key: bytes | None, headers: Headers = ()
    ) -> tuple[bytes, Row, Row | None, bytes | None] | None:
        """Parse an output: id, sent row, raw row and the JSON text of the reason for a label
        request; None for what is missing.

        Raises
        ------
        BadMessage, UnknownClass
            As for :meth:`read`.
        """
        codec, fields = self.predictions, self.fields
        message = codec.open(value, headers)
        original = codec.probs(message, self.probs_path, answered=False)
        if original is None:
            raise BadMessage(f"no field {fields.probs!r}")
        sent, _ = self._read_row(codec.row, original, fields.probs)
        raw = None
        if self.raw_path is not None:
            raw_probs = codec.probs(message, self.raw_path, answered=False)
            raw = None if raw_probs is None else self._read_row(codec.row, raw_probs, fields.raw)[0]
        id = self.id_of(message, key, headers)
        reason = codec.find(message, [ASKED])
        return None if id is None else (id, sent, raw, None if reason is None else bytes(reason))

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
        index = self._class_of(text)
        id = key if self._by_key else self._id_in(codec, message, headers)
        label = Label(index, None, id)
        if self.echo_path is not None:
            echo = codec.probs(message, self.echo_path, answered=False)
            if echo is not None:
                label.row, _ = self._read_row(self._echoed(codec), echo, self.fields.raw)
                if self._columns is not None:
                    label.segments, _ = self._columns.values_in(codec.find, message, headers)
        return label

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
        text = self.predictions.find(message, self.label_path)
        if text is None or bytes(text) == b"null":
            return None
        try:
            return self._class_of(text)
        except UnknownClass:
            label = _read_any(text)
            if isinstance(label, str) and is_missing(label):
                return None
            raise

    def _class_of(self, text: Raw) -> Any:
        """Parse a label to `Label.index`; BadMessage, UnknownClass."""
        is_long = len(bytes(text)) > LONG  # its names are counted before an object is made of each
        most = self._m + MANY
        if is_long and elements(text, most) > most:
            raise BadMessage(f"{self.fields.label}: over {most:,} names")
        try:
            label = (_read_flat if is_long else _read_any)(text)
        except UNREADABLE:
            fault = "no name, nor a list of such" if is_long else json_fault(bytes(text))
            raise BadMessage(f"{self.fields.label}: {fault}") from None
        return self._index_of(self._mapped(label) if self.fields.label_map else label, text)

    def _mapped(self, label: Any) -> Any:
        """What a label, or each of a list, stands for."""
        if isinstance(label, list):
            return [self._mapped(name) for name in label]
        text = label if isinstance(label, str) else msgspec.json.encode(label).decode()
        mapped = self.fields.label_map.get(text, label)
        if mapped == "":
            raise NoLabel(f"{self.fields.label}: {text} is no label")
        return mapped

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
        """Stack parsed rows; also return faults, {row: reason}, and the number of rows divided by
        their sum."""
        P, off = np.frombuffer(bytearray().join(rows)).reshape(-1, self._m), 0
        bad: dict[int, str] = {}
        if not all_fine(P):
            P, off = divided(P, self.fields.normalise)
            bad = bad_rows(P)
        return P, bad, off

    def names_in(self, message: Any) -> list[Any] | None:
        """Classes named by an opened message's probabilities; None where they name none."""
        names = self.predictions.names(message, self.probs_path)
        text = self.predictions.find(message, self.probs_path) if names is None else None
        if type(text) is not Raw or (plain := self._plain(text)) is None:
            return names
        probs = Raw(msgspec.json.encode(plain.probs))
        return self.predictions.names({"probs": probs}, ["probs"])

    def id_of(self, message: Any, key: bytes | None, headers: Headers = ()) -> bytes | None:
        """Id of a prediction: the record's key, a header, or the text of the id field; None without
        one, or where it is a float that no label could name."""
        try:
            return key if self._by_key else self._id_in(self.predictions, message, headers)
        except BadMessage:
            return None

    def id_of_label(self, message: Any, key: bytes | None, headers: Headers = ()) -> bytes | None:
        """:meth:`id_of` for a label's opened message; BadMessage where it is such a float."""
        return key if self._by_key else self._id_in(self.labels, message, headers)

    def _id_in(self, codec: Codec, message: Any, headers: Headers) -> bytes | None:
        if self._id_header is not None:
            return header_bytes(headers, self._id_header)
        text = codec.find(message, self._id_path)
        return None if text is None else id_of_json(bytes(text))


def messages_of(
    rows: str,
    classes: Sequence[Any],
    fields: Fields | None = None,
    train: NDArray[np.float64] | None = None,
    columns: Sequence[str] = (),
    formats: Formats = JSON,
    *,
    numbering: Numbering | None = None,
) -> Messages:
    """Messages of a kind of rows.

    Parameters
    ----------
    rows
        Name of the kind, see `stream_can.row_kinds.KINDS`.
    classes, fields, train, columns, formats
        As for `Messages`.
    numbering
        What numbers the classes of rows as they appear, where they are not declared.
    """
    of_kind: type[Messages] = part(rows, "messages").MESSAGES
    return of_kind(classes, fields, train, columns, formats, numbering)


def _plain(name: str) -> bytes | None:
    """A name in JSON without its quotes; None where something in it is escaped."""
    text = name.encode()
    return text if msgspec.json.encode(name) == b'"%b"' % text else None
