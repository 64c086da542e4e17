"""SentRecord: a sent or deferred batch as its topic holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_can.kafka.deferred import DeferredBatch
from stream_can.learner.sent import SentBatch, SentVersion

__all__ = ["LabelPlace", "SentRecord", "adopted", "cut"]

LabelPlace = tuple[str, int]
"""Topic and partition of labels."""


class SentRecord(NamedTuple):
    """A sent batch as its topic holds it."""

    offset: int
    batch: SentBatch | DeferredBatch
    size: int = 0
    """Approximate size in memory."""
    next: int | None = None
    """Next input offset after it; None where its rows are not from records of an input."""
    skipped: int = 0
    """Number of records of a deferred batch that come before these, and were played before."""
    partly: bool = False
    """Whether more of its records follow, which are played later."""

    @property
    def is_deferred(self) -> bool:
        """Whether the learner is to correct its records."""
        return isinstance(self.batch, DeferredBatch)


def cut(record: SentRecord, n: int) -> tuple[SentRecord, SentRecord]:
    """Cut a deferred batch behind n of its records."""
    batch = record.batch
    assert isinstance(batch, DeferredBatch)
    records, times, size = batch.records, batch.times, record.size * n // len(batch)
    first, second = DeferredBatch(records[:n], times[:n]), DeferredBatch(records[n:], times[n:])
    return (
        record._replace(batch=first, size=size, next=records[n].offset, partly=True),
        record._replace(batch=second, size=record.size - size, skipped=record.skipped + n),
    )


def adopted(
    numbering: Any, batches: Mapping[int, Sequence[SentRecord]]
) -> Mapping[int, Sequence[SentRecord]]:
    """Sent batches in the numbers that named classes have here; as they are where classes are
    declared."""
    if numbering is None:
        return batches
    return {
        p: [_adopted(numbering, record) for record in records] for p, records in batches.items()
    }


def _adopted(numbering: Any, record: SentRecord) -> SentRecord:
    """A sent batch in the numbers that classes have here, without rows for whose new classes there
    is no room: workers let them pass that did not know yet."""
    batch = record.batch
    if isinstance(batch, DeferredBatch):
        return record
    has_room, lanes = np.ones(len(batch), np.bool_), list[SentVersion]()
    for k, lane in enumerate(batch.versions):
        version, has_room[batch.of == k] = numbering.adopted(lane)
        lanes.append(version)
    return record._replace(batch=batch.of_versions(lanes, np.flatnonzero(has_room)))
