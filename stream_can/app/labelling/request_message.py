"""Message of a label request: what a person needs to see to give the label."""

from __future__ import annotations

import msgspec
from msgspec import Raw

__all__ = ["REASON_HEADER", "RequestMessage"]

REASON_HEADER = "stream-can-reason"
"""Header with the reason of a request."""


class RequestMessage(msgspec.Struct, omit_defaults=True):
    """A label request, as JSON."""

    id: str
    """Id that joins the label to the prediction."""
    reason: str
    """"random" or "margin"."""
    time: int
    """Timestamp of the prediction in milliseconds."""
    probs_raw: list[float]
    """Raw prediction, in class order."""
    probs: list[float]
    """Corrected prediction, as sent."""
    message: Raw = Raw(b"")
    """Complete output message as a JSON object; with Kafka it is in the input topic."""
    classes: list[str | int | float] | None = None
    """Class names, where messages name a model or version, whose classes may differ."""
    topic: str | None = None
    """Position of the prediction."""
    partition: int = 0
    offset: int = 0
