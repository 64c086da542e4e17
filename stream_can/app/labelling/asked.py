"""The message of a label request: what somebody needs to see to give the label."""

from __future__ import annotations

import msgspec
from msgspec import Raw

__all__ = ["REASON_HEADER", "RequestMessage"]

REASON_HEADER = "stream-can-reason"
"""The header of a request's record that has the reason."""


class RequestMessage(msgspec.Struct, omit_defaults=True):
    """A label request, as JSON."""

    id: str
    """Id that joins the label to the prediction."""
    reason: str
    """"random" or "margin"."""
    time: int
    """The prediction's timestamp, in milliseconds."""
    probs_raw: list[float]
    """The prediction as the classifier made it, in the order of the classes."""
    probs: list[float]
    """The same corrected, as it was sent."""
    message: Raw = Raw(b"")
    """The whole message that went out, as a JSON object; of Kafka it lies in the input."""
    classes: list[str | int | float] | None = None
    """Their names, where messages name a model or version: each may have others."""
    topic: str | None = None
    """Where the prediction lies."""
    partition: int = 0
    offset: int = 0
