"""UnplayedRecords: sent batches and labels that the learner has read and not played."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from stream_can.kafka.batch_reader import BatchReader
from stream_can.kafka.client.assigned import Assigned
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import RebuildError
from stream_can.kafka.headers import (
    DEFERRED_HEADER,
    MARK_HEADER,
    NEXT_HEADER,
    STATE_HEADER,
    header_of,
    number_in,
)
from stream_can.kafka.queues import Queue, is_deferred, size_of
from stream_can.kafka.schema_lookups import SchemaLookups
from stream_can.kafka.sent_record import LabelPlace, SentRecord, cut
from stream_can.kafka.settings import Settings
from stream_can.kafka.stored import newest_index
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner.order import steady

__all__ = ["UnplayedRecords"]

WAITING_BYTES = 64 << 20
"""Maximum bytes of records read but not played. Each partition has its share: labels that wait for
rows must not block the reading of those rows."""


class UnplayedRecords:
    """A queue for each partition of sent batches and labels, and what fills it.

    Parameters
    ----------
    settings, client
        Topics and brokers.
    learning
        The learner that will play them; reading begins at its positions.
    batch_reader
        Reads sent batches.
    lookups
        Tell whether a label can be read now, or a schema registry must be asked first; such a
        label holds back those behind it in its partition.
    """

    def __init__(
        self,
        settings: Settings,
        client: Client,
        learning: TopicLearner,
        batch_reader: BatchReader,
        lookups: SchemaLookups | None,
    ) -> None:
        self._settings, self._client, self._learning = settings, client, learning
        self._batch_reader, self._lookups = batch_reader, lookups
        self._reader = Assigned(client.options)
        self.queues: dict[LabelPlace, Queue] = {}
        """By topic and partition."""
        self._looked = 0.0
        """When added partitions were last looked for."""
        self.begun_at: dict[int, int] = {}
        """Offset of each input partition at which learning starts."""
        self.came: dict[int, tuple[int, float]] = {}
        """For each input partition the next offset and the latest time of what was read."""

    def read_all(self) -> None:
        """Read every partition of sent batches and labels, each from its position."""
        s, readers = self._settings, self._client.readers
        places = dict[LabelPlace, int]()
        for topic, at in self._learning.positions.of_topics():
            if readers.partitions(topic) > len(at):  # partitions were added, or a topic of labels
                bound = 1 if not at and s.start == "latest" else 0
                for p, span in readers.spans(topic).items():
                    at.setdefault(p, span[bound])
            places |= {(topic, p): offset for p, offset in at.items()}
        if places.keys() != self.queues.keys():
            self._reader.start(places)
            self.queues = {place: Queue() for place in places}
        if s.input:
            bound = 0 if s.start == "earliest" else 1
            for p, span in readers.spans(s.input).items():
                self.begun_at.setdefault(p, span[bound])
        self._looked = time.monotonic()

    def read_added(self) -> None:
        """Read partitions that were added, if it is time to look for these."""
        if time.monotonic() - self._looked > self._client.options.seconds("metadata_max_age"):
            self.read_all()

    @property
    def rows(self) -> int:
        """Number of rows in the queues."""
        return sum(queue.rows for queue in self.queues.values())

    @property
    def has_deferred(self) -> bool:
        """Whether there are deferred batches to play."""
        return any(queue.deferred for queue in self.queues.values())

    def behind(self, places: Iterable[LabelPlace]) -> bool:
        """Whether one of these partitions is known to have more to read."""
        return bool(self._reader.behind(places))

    def has_unread(self) -> bool:
        """Whether a partition of which nothing waits has more to read."""
        return self.behind(place for place, queue in self.queues.items() if not queue.waiting)

    def latest(self, p: int) -> float:
        """When a batch without rows is due: behind what its partition has, of which it holds back
        nothing. NaN, at once, where that is unknown."""
        return self.came.get(p, (0, math.nan))[1]

    def is_readable(self, topic: str, record: Any) -> bool:
        """Whether a label, or the records of a deferred batch, can be read now."""
        lookups = self._lookups
        if lookups is None:
            return True
        if topic != self._settings.sent_topic:
            return lookups.ready(record)
        return not is_deferred(record) or all(map(lookups.ready, record.batch.records))

    def spans(self) -> dict[LabelPlace, tuple[int, int]]:
        """What each partition has yet to be played: number of offsets until then and in all, where
        these are known.

        Raises
        ------
        RetryError
            The brokers do not know a topic any more.
        """
        self._reader.require_known()
        spans = self._reader.spans()
        return {
            place: (at - len(self.queues[place].waiting), end) for place, (at, end) in spans.items()
        }

    def poll(self, number: int, wait_ms: int) -> bool:
        """Add the records of one poll to the queues; return whether some came.

        Parameters
        ----------
        number
            Number of the last state.
        wait_ms
            Maximum milliseconds to wait for records.

        Raises
        ------
        RebuildError
            The application was started over.
        """
        learning = self._learning
        share = WAITING_BYTES / len(self.queues)
        for place, queue in self.queues.items():
            self._reader.hold(place, queue.bytes > share)
        foreign = list[Any]()
        polled = self._reader.poll(wait_ms)
        for (topic, p), records in polled.items():
            queue = self.queues[topic, p]
            if topic != self._settings.sent_topic:
                # One that is ahead holds back none that comes behind it later.
                times = np.minimum(learning.record_times.in_seconds(records), time.time()).tolist()
                for when, record in zip(times, records, strict=True):
                    queue.append(when, 0, record)
                continue
            for record in records:
                deferred = header_of(record.headers, DEFERRED_HEADER) is not None
                if deferred or header_of(record.headers, MARK_HEADER) == learning.mark:
                    self._append_batch(queue, p, record, deferred=deferred)
                else:
                    foreign.append(record)
        if foreign:
            self._leave_out(foreign, number)
        return bool(polled)

    def _append_batch(self, queue: Queue, p: int, record: Any, *, deferred: bool) -> None:
        """Append a sent or deferred batch to its queue, without what was played before."""
        learning = self._learning
        batch = self._batch_reader.read(record, learning.record_times.in_seconds, deferred=deferred)
        if batch is None:
            self._batch_reader.foreign += 1
            return
        times = batch.times[~np.isnan(batch.times)]
        when = float(np.median(times)) if len(times) else math.nan
        at = number_in(record.headers, NEXT_HEADER)
        if at is not None:
            latest = float(np.nanmax(steady(times), initial=-math.inf))
            self.came[p] = at, max(self.came.get(p, (0, latest))[1], latest)
        sent = SentRecord(record.offset, batch, size_of(record), at)
        positions = learning.positions
        skipped = positions.within.get(p, 0) if record.offset == positions.sent[p] else 0
        if sent.is_deferred and 0 < skipped < len(batch):
            sent = cut(sent, skipped)[1]
        if sent.is_deferred:
            when = sent.batch.times[0]
        elif not len(batch):
            when = self.latest(p)
        queue.append(when, len(sent.batch), sent)

    def _leave_out(self, foreign: list[Any], number: int) -> None:
        """Leave out records of other beginnings of the application, unless it has a new one."""
        learning, reader = self._learning, self._batch_reader
        numbers = (number_in(record.headers, STATE_HEADER) for record in foreign)
        if any(by is not None and by > number for by in numbers):
            newest = newest_index(self._client.readers, self._settings.state_topic)
            if newest is not None and newest[1].mark != learning.mark:
                raise RebuildError("the application was started over by another process")
        for record in foreign:
            if header_of(record.headers, MARK_HEADER) not in learning.former:
                reader.foreign += 1
                why = f"header {MARK_HEADER} is not that of this application; left out"
                reader.tell(record.partition, record.offset, why)

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()
