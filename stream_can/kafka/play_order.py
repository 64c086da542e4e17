"""PlayOrder: which records the learner plays next, the oldest first."""

from __future__ import annotations

import heapq
import math
import time
from functools import partial
from typing import Any, NamedTuple

from stream_can.kafka.batch_reader import BatchReader
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.headers import NEXT_HEADER
from stream_can.kafka.learned_time import HandedOver, LearnedTime, is_backlog, progress
from stream_can.kafka.queues import latest_of
from stream_can.kafka.sent_record import LabelPlace, SentRecord
from stream_can.kafka.settings import Settings
from stream_can.kafka.taken_records import TakenRecords
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.kafka.unplayed import UnplayedRecords

__all__ = ["DueRecords", "PlayOrder"]

HISTORY_ROWS = 5000
"""Rows of a state where the learner corrects what was handed over."""
UNREAD_SECONDS = 2.0
"""How long to wait for the records of a partition with more to read before playing others."""
SOFT_HELD = 20_000
"""Maximum number of held labels; beyond it no labels are read while predictions are due."""


class DueRecords(NamedTuple):
    """Records to play now."""

    sent: dict[int, list[SentRecord]]
    labels: dict[LabelPlace, list[Any]]
    until: float = math.inf
    """How far all input is learned once they are played."""


class PlayOrder:
    """Takes records from their queues as long as nothing older can still arrive.

    Parameters
    ----------
    settings, readers
        Topics and what reads their ends.
    learning
        The learner that plays the records.
    unplayed
        The queues.
    batch_reader
        Names batches that say more of the input than it holds.
    """

    def __init__(
        self,
        settings: Settings,
        readers: Readers,
        learning: TopicLearner,
        unplayed: UnplayedRecords,
        batch_reader: BatchReader,
    ) -> None:
        self._settings, self._learning, self._unplayed = settings, learning, unplayed
        self._batch_reader = batch_reader
        self._input: LearnedTime | None = None
        self._handed_over: HandedOver | None = None
        if topic := settings.input:
            ends = partial(readers.ends, topic)
            following = partial(readers.following, topic, times_of=learning.record_times.in_seconds)
            self._handed_over = HandedOver(ends, following)
            self._input = LearnedTime(ends, following, settings.label_wait)
        self._unread_until = 0.0
        """Until when records of partitions with nothing read are waited for."""

    def take(self, most_rows: int) -> DueRecords:
        """Take the records to play: the oldest first, as long as nothing older can still arrive.
        Labels are taken up to the time until which all input is learned, and up to the rows left
        over; in a backlog they would otherwise all be held."""
        topic, wait = self._settings.sent_topic, self._settings.label_wait
        if self._unplayed.has_deferred:
            return self._take_in_order()
        backlog = is_backlog(max(progress(self._learning.positions.times).values(), default=0.0))
        queues = {place: queue for place, queue in self._unplayed.queues.items() if queue.waiting}
        if not queues:
            return DueRecords({}, {})
        records, last = self._oldest({at for at in queues if at[0] == topic}, math.inf, most_rows)
        sent = {p: self._within_input(p, batches) for (_, p), batches in records.items()}
        until = self._learned_until(sent, near=0 if backlog else wait / 2)
        if self._learning.learner.held > SOFT_HELD and until < math.inf:
            return DueRecords(sent, {}, until)
        waiting_sent = [queue for at, queue in queues.items() if at[0] == topic and queue.waiting]
        # Uncorrected rows of a backlog come soon, and a label belongs to all rows of its id.
        last = min(
            [until + (0 if backlog else wait), last, *(queue.time for queue in waiting_sent)]
        )
        labels, _ = self._oldest({at for at in queues if at[0] != topic}, last, most_rows)
        return DueRecords(sent, labels, until)

    def _oldest(
        self, places: set[LabelPlace], last: float, most_rows: int
    ) -> tuple[dict[LabelPlace, list[Any]], float]:
        """Take records of some partitions up to a time; also return the time up to which
        none is missing."""
        due, rows = dict[LabelPlace, list[Any]](), 0
        unplayed, is_readable = self._unplayed, self._unplayed.is_readable
        heads = [(unplayed.queues[place].time, place) for place in places]
        heapq.heapify(heads)
        while heads and rows < most_rows:
            when, place = heapq.heappop(heads)
            queue = unplayed.queues[place]
            waiting = queue.waiting
            if when > last:
                break
            if not is_readable(place[0], waiting[0][2]):
                continue
            n, record = queue.take()
            rows += max(n, 1)
            due.setdefault(place, []).append(record)
            if waiting:
                heapq.heappush(heads, (queue.time, place))
            elif unplayed.behind([place]):
                return due, when  # the rest may be older than records of others
        return due, math.inf

    def _take_in_order(self) -> DueRecords:
        """:meth:`take` where there are deferred batches: rows and labels by time, as long as
        nothing older can arrive. Partitions that are handed over now are waited for, except by what
        workers corrected."""
        unplayed, topic = self._unplayed, self._settings.sent_topic
        if unplayed.has_unread() and time.monotonic() < self._unread_until:
            return DueRecords({}, {})
        handed_until = self._handed_until()
        taken_records = TakenRecords(unplayed, self._learning.record_times)
        heads = [(queue.time, place) for place, queue in unplayed.queues.items() if queue.waiting]
        heapq.heapify(heads)
        rows, has_taken, last = 0, False, handed_until
        while heads and rows < HISTORY_ROWS:
            when, place = heapq.heappop(heads)
            queue, is_sent = unplayed.queues[place], place[0] == topic
            record = queue.waiting[0][2]
            if when > handed_until and (not is_sent or record.is_deferred):
                continue
            if not unplayed.is_readable(place[0], record):
                last = min(last, when)
                continue
            n, record = queue.take()
            has_taken = True
            rows += max(n, 1) if is_sent else 0
            records = taken_records.sent if is_sent else taken_records.labels
            records.setdefault(place, []).append(record)
            if queue.waiting:
                heapq.heappush(heads, (queue.time, place))
            elif unplayed.behind([place]):
                last = min(last, latest_of(record, when))
                break  # the rest may be older than records of this one
        if has_taken:
            self._unread_until = time.monotonic() + UNREAD_SECONDS
            taken_records.put_back_after(min([last, *(when for when, _ in heads)]))
        sent = {p: self._within_input(p, batches) for (_, p), batches in taken_records.sent.items()}
        return DueRecords(sent, taken_records.labels, self._learned_until(sent))

    def _handed_until(self) -> float:
        """Time up to which nothing more is handed over."""
        if self._handed_over is None:
            return math.inf
        came, positions = self._unplayed.came, self._learning.positions
        inputs = self._unplayed.begun_at | positions.inputs
        latest = progress(positions.times) | {p: seconds for p, (_, seconds) in came.items()}
        return self._handed_over.until(inputs | {p: at for p, (at, _) in came.items()}, latest)

    def _learned_until(self, sent: dict[int, list[SentRecord]], near: float = 0) -> float:
        """Time up to which all input is learned after these batches; see :class:`LearnedTime`."""
        if self._settings.labels is None or self._input is None:
            return math.inf
        inputs, times = self._learning.positions.after(sent)
        return self._input.until(self._unplayed.begun_at | inputs, progress(times), near)

    def _within_input(self, p: int, batches: list[SentRecord]) -> list[SentRecord]:
        """Cut what batches of a partition say of the input to what the input holds."""
        nexts = [record.next for record in batches if record.next is not None]
        if self._input is None or not nexts:
            return batches
        end = self._input.within({p: max(nexts)})[p]
        for record in batches:
            if record.next is not None and record.next > end:
                claim = f"header {NEXT_HEADER}: {record.next}, but {self._settings.input}-{p}"
                why = f"{claim} ends at {end}, which counts instead"
                self._batch_reader.tell(p, record.offset, why)
        return [
            record if record.next is None else record._replace(next=min(record.next, end))
            for record in batches
        ]
