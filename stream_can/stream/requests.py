"""The message of a label request: what somebody needs to see to give the label.

It goes where the prediction's label is to come from, under the prediction's own key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from stream_can.messages.records import Header, Output
from stream_can.method.asking import LabelRequest

__all__ = [
    "MARK_SIZE", "REASON_HEADER",
    "OpenRequests", "RequestMessage", "reason_of", "request_record",
]  # fmt: skip

REASON_HEADER = "stream-can-reason"
"""The header of a request's record that has the reason."""
MARK_SIZE = len(b',"ask":"random"')
"""Bytes that it adds at most."""


class RequestMessage(msgspec.Struct, omit_defaults=True):
    """A label request, as JSON."""

    id: str
    """What joins the label to the prediction."""
    reason: str
    """"random" or "margin"."""
    probability: float
    """With which the row was asked for; 1 by margin."""
    time: int
    """The prediction's timestamp, in milliseconds."""
    probs_raw: list[float]
    """The prediction as the classifier made it, in the order of the classes."""
    probs: list[float]
    """The same corrected, as it was sent."""
    message: Raw
    """The whole message that went out, as a JSON object."""
    classes: list[str | int | float] | None = None
    """Their names, where messages name a model or version: each may have others."""


class OpenRequests:
    """The label requests of a partition whose label has not come; oldest first."""

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}  # offset of the prediction -> its timestamp

    def __len__(self) -> int:
        return len(self._asked)

    @property
    def oldest(self) -> int | None:
        """The timestamp of the oldest, in milliseconds."""
        return next(iter(self._asked.values()), None)

    def ask(self, offset: int, timestamp: int) -> None:
        """The label of a prediction is asked for."""
        self._asked[offset] = timestamp

    def answer(self, offsets: Iterable[int]) -> int:
        """Labels of these predictions came: how many of them were open requests."""
        return sum(self._asked.pop(offset, None) is not None for offset in offsets)

    def forget(self, below: int) -> None:
        """Predictions below an offset are not kept any more: no label can find them."""
        while self._asked and (first := next(iter(self._asked))) < below:
            del self._asked[first]


def reason_of(record: Output) -> str:
    """Why a request was made, without opening it."""
    return next(value or b"" for name, value in record.headers if name == REASON_HEADER).decode()


def request_record(
    output: Output,
    id: bytes,
    request: LabelRequest,
    raw: list[float],
    sent: list[float],
    message: Raw,
    classes: list[Any] | None = None,
) -> Output:
    """The record of a request for the label of the prediction that ``output`` was made of, whose
    message is shown."""
    says = RequestMessage(
        id.decode(errors="replace"),
        request.reason,
        request.probability,
        output.timestamp,
        raw,
        sent,
        message,
        classes,
    )
    # The reason is a header to be counted without being opened.
    headers: list[Header] = [(REASON_HEADER, request.reason.encode())]
    value = msgspec.json.encode(says)
    return Output(output.key, value, headers, output.timestamp, output.source)
