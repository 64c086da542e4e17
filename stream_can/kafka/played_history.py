"""PlayedHistory: plays the records of topics in the order of their times, and counts."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from stream_can.app.start import Start
from stream_can.app.tally import STAGES, Tally
from stream_can.change import Changes
from stream_can.kafka.corrections import unreadable
from stream_can.kafka.deferred import DeferredBatch
from stream_can.kafka.played_records import PlayedRecords
from stream_can.kafka.sent_record import LabelPlace, SentRecord
from stream_can.kafka.settings import Settings
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner.model_name import ONLY
from stream_can.learner.sent import SentBatch
from stream_can.messages.records import reason_of

__all__ = ["PlayedHistory"]

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
"""Seconds between two progress lines in the log."""
TOGETHER = 500
"""Records played at a time: a part of the history, of which scores are compared."""


class PlayedHistory:
    """Plays records in the order of their times."""

    def __init__(self, settings: Settings, start: Start, learning: TopicLearner) -> None:
        self._input, self._learning = settings.input, learning
        self._fail = settings.errors == "fail"
        self.tally = Tally(
            start.segments, lambda name: len(learning.models.classes().get(name, start.classes)),
            named=settings.has_lanes, sets=False, rows=settings.rows,
        )  # fmt: skip
        self.played: dict[int, SentBatch] = {}
        """The rows of the plays that still have some that wait for labels, by number."""
        self._classes = Counter[int]()
        """Labels that found their prediction, by index of the class, of a single corrector."""
        self._sums: list[list[float]] = [[0.0] * 5]
        """After each play the number of scored labels; hits before and after; log losses."""

    def play(self, records: Iterator[Any]) -> None:
        """Play all records."""
        logged_at, batch, n = time.monotonic(), list[Any](), 0
        for n, record in enumerate(records, 1):
            batch.append(record)
            if len(batch) >= TOGETHER:
                self._play(batch)
                batch = []
                if time.monotonic() - logged_at > EVERY_SECONDS:
                    logged_at = time.monotonic()
                    log.info("%d records", n)
        self._play(batch)
        log.info("%d records", n)

    @property
    def changes(self) -> Changes | None:
        """What the correction changed; None without scored labels."""
        rows, *sums = np.diff(self._sums, axis=0).T
        return Changes.of_sums(rows, sums[::2], sums[1::2])

    @property
    def commonest(self) -> tuple[Any, float] | None:
        """The class with most labels, and its share of them, if known."""
        if not self._classes:
            return None
        (y, n), *_ = self._classes.most_common(1)
        classes = getattr(self._learning.learner.live[ONLY].corrector, "classes", None)
        return None if classes is None else (classes[y], n / self._classes.total())

    def _play(self, records: list[Any]) -> None:
        learning, tally = self._learning, self.tally
        places: dict[LabelPlace, list[Any]] = {}
        for record in records:
            places.setdefault((record.topic, record.partition), []).append(record)
        inputs = {p: places.pop((topic, p)) for topic, p in [*places] if topic == self._input}
        sent, of = {}, learning.record_times.in_seconds
        for p, partition_records in inputs.items():
            times = np.minimum(
                of(partition_records), time.time()
            )  # clocks that are ahead; NaN stays
            at = partition_records[-1].offset + 1
            sent[p] = [SentRecord(0, DeferredBatch(partition_records, times), next=at)]
        played = learning.play(sent, places)
        for answer in played.answers.values():
            tally.answered(*answer.counts)
        if self._fail:
            self._require_read(played)
        tally.labelled(played.corrected.outcomes, played.corrected.taught, learning.learner.held)
        if ONLY in learning.learner.live:
            known = (label.prediction.known for label in played.corrected.taught)
            self._classes.update(y for y in known if isinstance(y, int))
        tally.not_learned(*played.not_learned)
        tally.refuse(len(played.bad), labels=True)
        done = tally.committed()
        sums = [done.hits[stage] for stage in STAGES] + [done.log_loss[stage] for stage in STAGES]
        self._sums.append([done.scored, *sums])
        if played.played:
            number = max(self.played, default=-1) + 1
            self.played[number] = played.sent
            learning.positions.tell([(0, number)])
        waiting = {number for play in learning.positions.plays for _, number in play.played}
        self.played = {number: batch for number, batch in self.played.items() if number in waiting}

    @staticmethod
    def _require_read(played: PlayedRecords) -> None:
        """UnreadableRecord where one of them cannot be read."""
        for answer in played.answers.values():
            for dead_letter in answer.dead_letters[:1]:
                assert dead_letter.source is not None
                raise unreadable(dead_letter.source, reason_of(dead_letter))
        for record, error in played.bad[:1]:
            raise unreadable(record, error) from error
