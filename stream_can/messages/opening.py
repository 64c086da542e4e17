"""Parse records into rows and labels, or errors."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, StreamCANError, UnknownClass
from stream_can.messages.messages import BadMessage, Label, Messages, Prediction
from stream_can.messages.records import Source

__all__ = ["Opened", "Reading", "far_below", "needs_measure", "open_records", "rows_at"]

Array = NDArray[np.float64]


BOTH_NULL = "key and value are both null; this letter's value is empty instead"

Opened = Prediction | Label | StreamCANError | None
"""A parsed record or its error; None for a tombstone."""


class Reading(NamedTuple):
    """How the records of a partition are parsed."""

    labels_topic: str | None
    labelled: bool
    max_bytes: int | None


def open_records(
    records: Sequence[Source],
    messages: Messages,
    reading: Reading,
    given: Sequence[Any] | None = None,
) -> tuple[list[Opened], Array, int]:
    """Parse records.

    Parameters
    ----------
    messages, reading
        The parser, and its options.
    given
        Message of each record or its error, where opened already; None for a tombstone.

    Returns
    -------
    Content of each record; the checked rows, to which predictions and labels refer by number; and
    the number of rows divided by their sum.
    """
    labels_topic, labelled, max_bytes = reading
    opened: list[Opened] = []
    rows: list[array[float]] = []
    open_prediction, open_label = messages.predictions.open, messages.labels.open
    most = far_below(messages, max_bytes)
    for i, record in enumerate(records):
        says: Prediction | Label | None = None
        value = record.value
        try:
            if record.topic == labels_topic:
                if value is not None:
                    message = open_label(value, record.headers) if given is None else _of(given[i])
                    says = messages.read_opened_label(message, record.key, record.headers)
            elif value is not None:
                message = open_prediction(value, record.headers) if given is None else _of(given[i])
                says = messages.read_opened(message, record.headers)
                if labelled:
                    says.label = messages.label_in(message)
                if len(value) > most or needs_measure(record):
                    check_size(record, says, messages, max_bytes)
            elif record.key is None:
                raise BadMessage(BOTH_NULL)
        except (BadMessage, UnknownClass, InvalidPrediction) as error:
            opened.append(error)
            continue
        if says is not None and says.row is not None:
            says.number = len(rows)
            rows.append(says.row)
        opened.append(says)
    P, bad, off = messages.rows_of(rows)
    fields = messages.fields
    if bad:
        for i, one in enumerate(opened):
            if isinstance(one, Prediction | Label) and one.number in bad:
                field = fields.probs if isinstance(one, Prediction) else fields.raw
                opened[i] = InvalidPrediction(f"{field}: {bad[one.number]}")
    return opened, P, off


def rows_at(P: Any, numbers: Sequence[int]) -> Any:
    """Select rows of :func:`open_records`."""
    return [P[i] for i in numbers] if isinstance(P, list) else P[numbers]


def far_below(messages: Messages, max_bytes: int | None) -> float:
    """Size below which no answer exceeds the limit: nearly all are; only others are measured."""
    return (math.inf if max_bytes is None else max_bytes - messages.slack - 200) / 2


def needs_measure(record: Source) -> bool:
    """Whether a record is more than its value and a short key."""
    return bool(record.headers) or len(record.key or b"") > 100


def _of(given: Any) -> Any:
    """Return an opened message, or raise its error."""
    if isinstance(given, BadMessage):
        raise given
    return given


def check_size(
    record: Source, prediction: Prediction, messages: Messages, max_bytes: int | None
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
