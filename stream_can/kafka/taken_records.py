"""TakenRecords: records taken to be played together, of which the late ones are put back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_can.kafka.queues import Queue
from stream_can.kafka.sent_record import LabelPlace, SentRecord, cut
from stream_can.kafka.times import RecordTimes
from stream_can.kafka.unplayed import UnplayedRecords
from stream_can.learner.order import BEHIND, steady

__all__ = ["TakenRecords"]


class TakenRecords:
    """Sent batches and labels that left their queues, by partition.

    Parameters
    ----------
    unplayed
        The queues.
    record_times
        Times of labels.
    """

    def __init__(self, unplayed: UnplayedRecords, record_times: RecordTimes) -> None:
        self._unplayed, self._record_times = unplayed, record_times
        self.sent: dict[LabelPlace, list[Any]] = {}
        self.labels: dict[LabelPlace, list[Any]] = {}

    def put_back_after(self, last: float) -> None:
        """Put back what is later than a time, of deferred batches and labels."""
        if last == math.inf:
            return
        sent = {place: self._cut_sent(place, records, last) for place, records in self.sent.items()}
        labels = {place: self._cut_labels(records, last) for place, records in self.labels.items()}
        if not any(due for due, *_ in [*sent.values(), *labels.values()]):
            return  # clocks that are wrong stop nothing
        for place, (_, late_batches) in sent.items():
            for record in reversed(late_batches):
                n = len(record.batch)
                when = record.batch.times[0] if n else self._unplayed.latest(place[1])
                self._unplayed.queues[place].put_back(when, n, record)
        for place, (_, late_labels, times) in labels.items():
            for record, when in zip(reversed(late_labels), reversed(times), strict=True):
                self._unplayed.queues[place].put_back(when, 0, record)
        self.sent = {place: due for place, (due, _) in sent.items() if due}
        self.labels = {place: due for place, (due, *_) in labels.items() if due}

    def _cut_sent(
        self, place: LabelPlace, records: list[SentRecord], last: float
    ) -> tuple[list[SentRecord], list[SentRecord]]:
        """Batches of a partition up to a time, and those behind."""
        due_rows = _due_rows(records, self._unplayed.queues[place], last)
        due, at = list[SentRecord](), 0
        for record in records:
            if at + len(record.batch) > due_rows and record.is_deferred:
                break
            due.append(record)
            at += len(record.batch)
        late = records[len(due) :]
        if late and due_rows > at:
            first, late[0] = cut(late[0], due_rows - at)
            due.append(first)
        return due, late

    def _cut_labels(
        self, records: list[Any], last: float
    ) -> tuple[list[Any], list[Any], list[float]]:
        """Labels of a partition up to a time, those behind, and the times of these."""
        times: list[float] = self._record_times.in_seconds(records).tolist()
        n = len(records)
        while n and times[n - 1] > last:
            n -= 1
        return records[:n], records[n:], times[n:]


def _due_rows(records: Sequence[SentRecord], queue: Queue, last: float) -> int:
    """How many rows of a partition come up to a time, before what waits in its queue."""
    times = [record.batch.times for record in records]
    n = sum(map(len, times))
    if queue.waiting:
        times.append(queue.waiting[0][2].batch.times[:BEHIND])
    steady_times = steady(np.concatenate(times))[:n]
    keys = np.maximum.accumulate(np.where(np.isnan(steady_times), -np.inf, steady_times))
    return int(np.searchsorted(keys, last, side="right"))
