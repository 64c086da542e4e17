"""PlayedRecords: results of playing records."""

from __future__ import annotations

from typing import NamedTuple

from stream_can.errors import StreamCANError
from stream_can.kafka.corrections import Corrections
from stream_can.learner import Corrected
from stream_can.learner.sent import SentBatch
from stream_can.messages.records import Source

__all__ = ["PlayedRecords"]


class PlayedRecords(NamedTuple):
    """Results of playing records."""

    corrected: Corrected
    sent: SentBatch
    """Rows in the order in which they were learned."""
    places: list[tuple[int, int | None]]
    """Input partition and offset of each row, None where it has none; only where labels are
    requested."""
    bad: list[tuple[Source, StreamCANError]]
    """Labels that cannot be read."""
    not_learned: tuple[int, int] = (0, 0)
    """Number of records of labels that say nothing, and of labels that no model in use has."""
    answers: dict[int, Corrections] = {}  # noqa: RUF012
    """Outputs and dead letters of deferred records, by partition."""
    played: bool = False
    """Whether some rows were corrected: then ``sent`` is to be told, see :attr:`Play.played`."""
