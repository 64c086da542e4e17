"""Parse messages into rows and labels, or errors."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stream_can.errors import InvalidPrediction, StreamCANError, UnknownClass
from stream_can.messages.messages import BadMessage, Label, Messages, Prediction
from stream_can.messages.records import Headers

__all__ = [
    "Opened", "Unread", "far_below", "needs_measure", "open_labels", "open_predictions", "rows_at",
]  # fmt: skip

BOTH_NULL = "key and value are both null; this letter's value is empty instead"

Opened = Prediction | Label | StreamCANError | None
"""A parsed message or its error; None for a tombstone."""


class Unread(Protocol):
    """What is read of a message, wherever it comes from."""

    value: bytes | None
    key: bytes | None
    headers: Headers


def open_predictions(
    records: Sequence[Unread],
    messages: Messages,
    *,
    labelled: bool = False,
    max_bytes: int | None = None,
    given: Sequence[Any] | None = None,
) -> tuple[list[Prediction | StreamCANError | None], Any, int]:
    """Parse predictions.

    Parameters
    ----------
    messages
        The parser.
    labelled
        Whether they may carry their own label.
    max_bytes
        Maximum size of an output.
    given
        Message of each record or its error, where opened already; None for a tombstone.

    Returns
    -------
    Content of each record; the checked rows, to which predictions refer by number; and the number
    of rows divided by their sum.
    """
    opened: list[Prediction | StreamCANError | None] = []
    rows: list[array[float]] = []
    open_prediction, most = messages.predictions.open, far_below(messages, max_bytes)
    for i, record in enumerate(records):
        value = record.value
        try:
            if value is None:
                if record.key is None:
                    raise BadMessage(BOTH_NULL)
                opened.append(None)
                continue
            message = open_prediction(value, record.headers) if given is None else _of(given[i])
            says = messages.read_opened(message, record.headers)
            if labelled:
                says.label = messages.label_in(message)
            if len(value) > most or needs_measure(record):
                check_size(record, says, messages, max_bytes)
        except (BadMessage, UnknownClass, InvalidPrediction) as error:
            opened.append(error)
            continue
        if says.row is not None:
            says.number = len(rows)
            rows.append(says.row)
        opened.append(says)
    P, bad, off = messages.rows_of(rows)
    return _without(bad, opened, messages.fields.probs), P, off


def open_labels(
    records: Sequence[Unread], messages: Messages, given: Sequence[Any] | None = None
) -> tuple[list[Label | StreamCANError | None], Any]:
    """Parse labels, as :func:`open_predictions`; rows are those that they carry."""
    opened: list[Label | StreamCANError | None] = []
    rows: list[array[float]] = []
    for i, record in enumerate(records):
        value = record.value
        if value is None:
            opened.append(None)
            continue
        try:
            message = (
                messages.labels.open(value, record.headers) if given is None else _of(given[i])
            )
            says = messages.read_opened_label(message, record.key, record.headers)
        except (BadMessage, UnknownClass, InvalidPrediction) as error:
            opened.append(error)
            continue
        if says.row is not None:
            says.number = len(rows)
            rows.append(says.row)
        opened.append(says)
    P, bad, _ = messages.rows_of(rows)
    return _without(bad, opened, messages.fields.raw), P


def _without(bad: Mapping[int, str], opened: list[Any], field: str) -> list[Any]:
    """What was opened, with errors in place of what has a bad row."""
    if bad:
        for i, one in enumerate(opened):
            if isinstance(one, Prediction | Label) and one.number in bad:
                opened[i] = InvalidPrediction(f"{field}: {bad[one.number]}")
    return opened


def rows_at(P: Any, numbers: Sequence[int]) -> Any:
    """Select rows of :func:`open_predictions`."""
    return [P[i] for i in numbers] if isinstance(P, list) else P[numbers]


def far_below(messages: Messages, max_bytes: int | None) -> float:
    """Size below which no answer exceeds the limit: nearly all are; only others are measured."""
    return (math.inf if max_bytes is None else max_bytes - messages.slack - 200) / 2


def needs_measure(record: Unread) -> bool:
    """Whether a record is more than its value and a short key."""
    return bool(record.headers) or len(record.key or b"") > 100


def _of(given: Any) -> Any:
    """Return an opened message, or raise its error."""
    if isinstance(given, BadMessage):
        raise given
    return given


def check_size(
    record: Unread, prediction: Prediction, messages: Messages, max_bytes: int | None
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
