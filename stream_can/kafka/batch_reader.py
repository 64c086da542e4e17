"""BatchReader: sent and deferred batches from the records of their topic."""

from __future__ import annotations

import logging
from typing import Any

from stream_can.app.metrics import Metrics
from stream_can.app.start import Start
from stream_can.errors import SnapshotMismatch
from stream_can.kafka.deferred import DeferredBatch, TimesOf, read_deferred, times_of
from stream_can.kafka.headers import NEXT_HEADER, PLAYED_HEADER, header_of, number_in
from stream_can.kafka.settings import Settings
from stream_can.learner import Learner, read_sent
from stream_can.learner.sent import NO_ROWS, SentBatch

__all__ = ["BatchReader"]

log = logging.getLogger(__name__)

MOST_TOLD = 10
"""Records that are named in the log because they are not played as they are."""


class BatchReader:
    """Reads records of the topic of sent batches; names those in the log that cannot be played.

    Parameters
    ----------
    settings, start
        Topics, and what rows of the application are like.
    metrics
        Counts what is left out.
    """

    def __init__(self, settings: Settings, start: Start, metrics: Metrics) -> None:
        self._input, self._topic, self._metrics = settings.input, settings.sent_topic, metrics
        self._fresh = Learner(start.with_settings(start.snapshot))
        """Knows what rows of the application are like."""
        self._told = 0
        """Number of records named, or not named, by `tell`."""
        self.foreign = 0
        """Number of records that are no sent batches of this application."""

    def read(
        self, record: Any, times_of: TimesOf = times_of, *, deferred: bool
    ) -> SentBatch | DeferredBatch | None:
        """Decode a sent or deferred batch, its times capped at the record's; None where it is
        none. What was played already has no rows."""
        if header_of(record.headers, PLAYED_HEADER) is not None:
            return NO_ROWS
        batch: SentBatch | DeferredBatch
        try:
            if deferred:
                batch = read_deferred(record.value or b"", record.timestamp / 1000, times_of)
                first = batch.records[0]
                if (first.topic, first.partition) != (self._input, record.partition):
                    raise SnapshotMismatch(f"deferred records of {first.topic}-{first.partition}")
            else:
                batch = read_sent(record.value or b"")
                self._fresh.require_sent(batch)
            next_text = header_of(record.headers, NEXT_HEADER)
            if next_text is not None and number_in(record.headers, NEXT_HEADER) is None:
                raise SnapshotMismatch(
                    f"header {NEXT_HEADER}: {next_text[:80]!r}, expected an offset"
                )
        except SnapshotMismatch as error:
            self._metrics.left_out()
            self.tell(record.partition, record.offset, f"{error}; left out")
            return None
        is_ahead = batch.times > record.timestamp / 1000
        if is_ahead.any():
            batch.times[is_ahead] = record.timestamp / 1000
        return batch

    def tell(self, partition: int, offset: int, why: str) -> None:
        """Name a record that is not played as it is: of this process the first few, since anybody
        with WRITE may send any number."""
        self._told += 1
        if self._told <= MOST_TOLD:
            log.warning("%s-%d offset %d: %s", self._topic, partition, offset, why)
        if self._told == MOST_TOLD:
            log.warning("others like these are counted alone, see /metrics")
