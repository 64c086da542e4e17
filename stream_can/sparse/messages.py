"""Messages of sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.messages.codecs.codec import Codec, Prediction
from stream_can.messages.codecs.json import JsonCodec
from stream_can.messages.messages import BadMessage, Messages
from stream_can.messages.probability_formats import Forms
from stream_can.messages.sparse_formats import ListedForms, Numbering
from stream_can.method.classes import is_missing
from stream_can.sparse.loop import MOST_LISTED
from stream_can.sparse.rows import shortened


class SparseMessages(Messages):
    """Messages in JSON whose rows name the likeliest classes, which are numbered as they appear."""

    may_be_ordinary = False

    numbering: Numbering

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sparse_forms = ListedForms(numbered=self.numbering.numbered)
        self._row = self._sparse_row

    @property
    def widest(self) -> int:
        """Largest number of classes of a row."""
        return MOST_LISTED

    def _sparse_row(self, original: Raw, _: Forms, where: str) -> Any:
        """Parse a row of the likeliest classes; number new ones."""
        row, form = JsonCodec().sparse_row(original, self._sparse_forms, where)
        try:
            return self.numbering.checked(row), form
        except InvalidPrediction as error:
            raise InvalidPrediction(f"{where}: {error}") from None

    def write_all(self, predictions: Sequence[Prediction], rows: Any) -> list[bytes]:
        """Messages with the corrected rows by name, and with the rest."""
        write = JsonCodec().write_sparse
        return write(predictions, rows, self.probs_path, self.fields.raw)

    def finished(self, rows: Any) -> Any:
        """Round corrected rows to the output's digits."""
        digits = self.fields.digits
        return rows if digits is None else shortened(rows, digits)

    def as_lists(self, row: Any, sent: Any) -> tuple[list[float], list[float], list[Any] | None]:
        """A row and its corrected row as lists of numbers, and their classes."""
        corrected, raw = sent.probabilities, row.P[0].tolist()
        raw += [0.0] * (len(corrected) - len(raw))
        return raw, [*corrected.values()], [*corrected]

    def _echoed(self, codec: Codec) -> Any:
        return self._row

    def label_of(self, index: Any) -> Any:
        """The name of a class, as `Learner.label` takes it."""
        return index

    def _index_of(self, label: Any, text: Raw) -> Any:
        """Parse a class; number a new one, unless it is a text for a missing label."""
        where = self.fields.label
        if not isinstance(label, str | int) or isinstance(label, bool):
            type_name = "null" if label is None else type(label).__name__
            raise BadMessage(f"{where}: {type_name}, expected the name of a class")
        try:
            name = self._sparse_forms.name_of(label)
            if isinstance(name, str) and is_missing(name):
                self.numbering.known(name)
            self.numbering.number(name)
        except UnknownClass as error:
            why = str(error).removeprefix("label: ")
            raise UnknownClass(f"{where}: {why}") from None
        return name

    def rows_of(self, rows: Sequence[Any]) -> tuple[Any, dict[int, str], int]:
        """The parsed rows, which were checked when they were numbered."""
        return rows, {}, 0


MESSAGES = SparseMessages
