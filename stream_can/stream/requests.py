"""The message of a label request: what somebody needs to see to give the label.

It goes where the prediction's label is to come from, under the prediction's own key.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from stream_can.method.asking import LabelRequest
from stream_can.stream.records import Header, Output

__all__ = ["FIELD", "MARK_SIZE", "REASON_HEADER", "RequestMessage", "reason_of", "request_record"]

FIELD = "ask"
"""The name, in the message of a prediction whose label is asked for, of the reason."""
REASON_HEADER = "stream-can-reason"
"""The header of a request's record that has the reason."""
MARK_SIZE = len(b',"ask":"random"')
"""Bytes that it adds at most."""


class RequestMessage(msgspec.Struct):
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
    """The whole message that went out, a JSON object."""


def reason_of(record: Output) -> str:
    """Why a request was made, without opening it."""
    return next(value or b"" for name, value in record.headers if name == REASON_HEADER).decode()


def request_record(
    output: Output, id: bytes, request: LabelRequest, raw: list[float], sent: list[float]
) -> Output:
    """The record of a request for the label of the prediction that ``output`` was made of."""
    message = RequestMessage(
        id.decode(errors="replace"),
        request.reason,
        request.probability,
        output.timestamp,
        raw,
        sent,
        Raw(output.value or b"null"),
    )
    # The reason is a header to be counted without being opened.
    headers: list[Header] = [(REASON_HEADER, request.reason.encode())]
    return Output(output.key, msgspec.json.encode(message), headers, output.timestamp)
