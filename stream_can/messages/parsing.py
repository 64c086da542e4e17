"""Parse messages into rows and labels, or errors."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stream_can.errors import InvalidPrediction, StreamCANError, UnknownClass
from stream_can.messages.label import Label
from stream_can.messages.messages import BadMessage, Messages, Prediction
from stream_can.messages.records import Headers

BOTH_NULL = "key and value are both null; this letter's value is empty instead"

UNOPENED: Any = object()
"""In place of a message: it is opened where it is parsed."""

Opened = Prediction | Label | StreamCANError | None
"""A parsed message or its error; None for a tombstone."""


class RawMessage(Protocol):
    """What is read of a message, wherever it comes from."""

    value: bytes | None
    key: bytes | None
    headers: Headers


class _Opened:
    """Messages that are parsed one after the other; their rows are checked together."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._opened: list[Any] = []
        self._rows: list[array[float]] = []

    def append(self, record: RawMessage, message: Any = UNOPENED) -> None:
        """Parse the next one; ``message`` is its message or its error, where opened already."""
        try:
            self._opened.append(self._parse(record, message))
        except (BadMessage, UnknownClass, InvalidPrediction) as error:
            self._opened.append(error)

    def _parse(self, record: RawMessage, message: Any) -> Prediction | Label | None:
        """Parse one; None for a tombstone."""
        raise NotImplementedError

    def _count(self, content: Prediction | Label) -> None:
        """Add the row of a message, if any, and number it."""
        if content.row is not None:
            content.number = len(self._rows)
            self._rows.append(content.row)


class OpenedPredictions(_Opened):
    """Parses predictions one after the other; their rows are checked together.

    Parameters
    ----------
    messages
        The parser.
    labelled
        Whether they may carry their own label.
    max_bytes
        Maximum size of an output.
    """

    def __init__(
        self, messages: Messages, *, labelled: bool = False, max_bytes: int | None = None
    ) -> None:
        super().__init__(messages)
        self._labelled, self._max_bytes = labelled, max_bytes
        self._most = far_below(messages, max_bytes)

    def _parse(self, record: RawMessage, message: Any) -> Prediction | None:
        value, messages = record.value, self._messages
        if value is None:
            if record.key is None:
                raise BadMessage(BOTH_NULL)
            return None
        if message is UNOPENED:
            message = messages.predictions.open(value, record.headers)
        prediction = messages.read_opened(_unless_error(message), record.headers)
        if self._labelled:
            prediction.label = messages.label_in(message)
            prediction.weight = messages.weight_in(messages.predictions, message, record.headers)
        if len(value) > self._most or needs_measure(record):
            check_size(record, prediction, messages, self._max_bytes)
        self._count(prediction)
        return prediction

    def checked(self) -> tuple[list[Prediction | StreamCANError | None], Any, int]:
        """Content of each, None for a tombstone; the checked rows, to which predictions refer by
        number; and the number of rows divided by their sum."""
        P, bad, off = self._messages.rows_of(self._rows)
        return _without(bad, self._opened, self._messages.fields.probs), P, off


class OpenedLabels(_Opened):
    """Parses labels one after the other, as `OpenedPredictions`; rows are those that they carry."""

    def _parse(self, record: RawMessage, message: Any) -> Label | None:
        if record.value is None:
            return None
        if message is UNOPENED:
            message = self._messages.labels.open(record.value, record.headers)
        label = self._messages.read_opened_label(_unless_error(message), record.key, record.headers)
        self._count(label)
        return label

    def checked(self) -> tuple[list[Label | StreamCANError | None], Any]:
        """Content of each, None for a tombstone; and the rows, to which labels refer by number."""
        P, bad, _ = self._messages.rows_of(self._rows)
        return _without(bad, self._opened, self._messages.fields.raw), P


def _without(bad: Mapping[int, str], opened: list[Any], field: str) -> list[Any]:
    """What was opened, with errors in place of what has a bad row."""
    if bad:
        for i, content in enumerate(opened):
            if isinstance(content, Prediction | Label) and content.number in bad:
                opened[i] = InvalidPrediction(f"{field}: {bad[content.number]}")
    return opened


def rows_at(P: Any, numbers: Sequence[int]) -> Any:
    """Select rows of `OpenedPredictions`."""
    return [P[i] for i in numbers] if isinstance(P, list) else P[numbers]


def far_below(messages: Messages, max_bytes: int | None) -> float:
    """Size below which no answer exceeds the limit: nearly all are; only others are measured."""
    return (math.inf if max_bytes is None else max_bytes - messages.slack - 200) / 2


def needs_measure(record: RawMessage) -> bool:
    """Whether a record is more than its value and a short key."""
    return bool(record.headers) or len(record.key or b"") > 100


def _unless_error(message: Any) -> Any:
    """Return an opened message, or raise its error."""
    if isinstance(message, BadMessage):
        raise message
    return message


def check_size(
    record: RawMessage, prediction: Prediction, messages: Messages, max_bytes: int | None
) -> None:
    """Raise BadMessage where a prediction's output could exceed the size limit."""
    if max_bytes is None:
        return
    other = len(record.key or b"") + sum(len(k) + len(v or b"") for k, v in record.headers)
    if 2 * len(record.value or b"") + messages.slack + other + 100 <= max_bytes:
        return
    size = messages.largest(prediction) + other
    if size > max_bytes:
        raise BadMessage(
            f"the output could take {size} bytes, more than the {max_bytes} that a record may have"
        )
