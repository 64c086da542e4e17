"""Headers of sent batches, deferred batches and outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stream_can.messages.records import Header

__all__ = [
    "DEFERRED_HEADER",
    "MARK_HEADER",
    "NEXT_HEADER",
    "PLAYED_HEADER",
    "STATE_HEADER",
    "header_of",
    "headers_by",
    "number_in",
]

STATE_HEADER, MARK_HEADER = "stream-can-state", "stream-can-mark"
"""Headers: number of the state by which a record was made, and identifier of the application's
beginning."""
NEXT_HEADER = "stream-can-next"
"""Header of a sent batch: the next input offset. A stretch of dead letters and tombstones is
covered by a batch without rows."""
DEFERRED_HEADER = "stream-can-deferred"
"""Header of a deferred batch: the number of its records."""
PLAYED_HEADER = "stream-can-played"
"""Header of a sent batch in which the learner tells of rows that it played, some of which it
corrected itself: it is not learned again."""


def headers_by(number: int, mark: str) -> list[Header]:
    """Headers of a sent batch: the state that corrected it, and the identifier of the application's
    beginning."""
    return [(STATE_HEADER, b"%d" % number), (MARK_HEADER, mark.encode())]


def header_of(headers: Sequence[tuple[str, bytes | None]], name: str) -> str | None:
    """Text of a header; None where it is missing."""
    by_name: Mapping[str, bytes | None] = dict(headers)
    value = by_name.get(name)
    return None if value is None else value.decode(errors="replace")


def number_in(headers: Sequence[tuple[str, bytes | None]], name: str) -> int | None:
    """Number or offset in a header; None where it is missing, or is none below 10^18."""
    text = header_of(headers, name)
    return int(text) if text is not None and re.fullmatch("[0-9]{1,18}", text) else None
