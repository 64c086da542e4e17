"""Backfill: play the history of topics offline into a first state, so a deployment starts warm.

The records are corrected and learned as the learner does it with a topic that has a history: one
after the other in the order of time, with every label before them. Nothing is sent, and no consumer
group is needed.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_can.app.health import Health
from stream_can.app.metrics import Metrics
from stream_can.app.models import DeclaredCorrector
from stream_can.app.start import Start
from stream_can.app.tally import STAGES, Tally
from stream_can.change import Changes
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.correcting_role import CorrectingRole, UnreadableRecord, offset_of
from stream_can.kafka.deferred import DeferredBatch, TimesOf
from stream_can.kafka.learning_role import LearningRole
from stream_can.kafka.memory import LabelPlace, PlayedRecords, SentRecord, TopicLearner
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import start_of
from stream_can.learner.model_name import ONLY
from stream_can.learner.order import BEHIND, steady
from stream_can.learner.sent import SentBatch
from stream_can.learner.totals import hit_rate, total
from stream_can.messages.records import reason_of

__all__ = ["Backfill", "backfill"]

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
"""Rows between two progress lines in the log."""
CHUNK = 5_000
"""Records read at a time from one partition; as many of each partition are held in memory."""
TOGETHER = 500
"""Records played at a time: a part of the history, of which scores are compared."""


class Backfill(NamedTuple):
    """Result of playing a history."""

    learning: TopicLearner
    tally: Tally
    ends: dict[str, dict[int, int]]
    """Next offset of each partition of the input and of the topics of labels."""
    changes: Changes | None
    """What the correction changed; None without scored labels."""
    commonest: tuple[Any, float] | None
    """The class with most labels, and its share of them; None of other rows than dense ones, of
    several models, and without labels."""

    @property
    def corrector(self) -> DeclaredCorrector:
        """The corrector; with several models, the initial one of new models."""
        live = self.learning.learner.live
        corrector = live[ONLY].corrector if ONLY in live else self.learning.start.corrector()
        return corrector

    def to_dict(self) -> dict[str, Any]:
        """Counts, final offsets, and accuracy and log loss before and after correction."""
        learner = self.learning.learner
        summary: dict[str, Any] = dict(self.tally.counts)
        raw, sent = total(learner.scores)
        summary["scored"] = raw.n
        for stage, scores in (("before", raw), ("after", sent)):
            if scores.n:
                name = hit_rate(scores)
                summary[stage] = {name: getattr(scores, name), "log_loss": scores.log_loss}
        if self.learning.settings.has_lanes:
            summary["lanes"] = [
                {
                    "model": name[0] or "",
                    "version": name[1] or "",
                    "labels": lane.corrector.n_labels,
                }
                for name, lane in sorted(learner.live.items(), key=str)
            ]
        summary["next_offsets"] = self.ends
        return summary


def backfill(settings: Settings, *, start_group: bool = False) -> Backfill:
    """Learn from everything that the input and label topics hold now.

    Parameters
    ----------
    settings
        The application's settings.
    start_group
        Store the result as the group's first state, which continues exactly where the history ends.

    Raises
    ------
    DeniedError
        A topic cannot be used; with ``start_group``, the group has members or committed offsets,
        or there is a state already.
    RetryError
        No broker answers.
    """
    start = start_of(settings)
    work = CorrectingRole(settings, start, Metrics(), Health(60))
    learns = LearningRole(settings, start_of(settings), Metrics())
    try:
        return _backfill(settings, start, work, learns, start_group)
    finally:
        for role in (work, learns):
            role.close()
            role.client.close(leave=False)


def _backfill(
    settings: Settings, start: Start, work: CorrectingRole, learns: LearningRole, start_group: bool
) -> Backfill:
    readers = Readers(work.client.options)
    if start_group:
        work.check()
        learns.check()
        if not work.client.group_is_new():
            raise DeniedError(
                f"group {settings.application_id!r} has members or has committed; give another"
                " application_id, or start it with the snapshot"
            )
        if learns.has_state():
            raise DeniedError(
                f"topic {settings.state_topic!r} has a state; give another application_id"
            )
    try:
        topics = [settings.input, *settings.topics_of_labels]
        spans = {topic: readers.spans(topic) for topic in topics}
        learning = TopicLearner.begin(settings, start, dict.fromkeys(spans[settings.input], 0), {})
        played = _History(settings, start, learning)
        played.play(_merged(readers, spans, learning.record_times.in_seconds))
    finally:
        readers.close()
    ends = {topic: {p: end for p, (_, end) in of.items()} for topic, of in spans.items()}
    learning.labels = {topic: dict(ends[topic]) for topic in settings.topics_of_labels}
    learning.inputs |= ends[settings.input]
    if start_group:
        learns.begin_with(learning, played.played)
        offsets = {(settings.input, p): end for p, end in ends[settings.input].items()}
        work.client.set_offsets(offsets)
    return Backfill(learning, played.tally, ends, played.changes, played.commonest)


class _History:
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
            learning.told([(0, number)])
        waiting = {number for play in learning.plays for _, number in play.played}
        self.played = {number: batch for number, batch in self.played.items() if number in waiting}

    @staticmethod
    def _require_read(played: PlayedRecords) -> None:
        """UnreadableRecord where one of them cannot be read."""
        for answer in played.answers.values():
            for dead_letter in answer.dead_letters[:1]:
                assert dead_letter.source is not None
                raise UnreadableRecord(f"{offset_of(dead_letter.source)}: {reason_of(dead_letter)}")
        for record, error in played.bad[:1]:
            raise UnreadableRecord(f"{offset_of(record)}: {error}") from error


def _merged(
    readers: Readers, spans: Mapping[str, Mapping[int, tuple[int, int]]], times_of: TimesOf
) -> Iterator[Any]:
    """Merge the records of all partitions of the input, the first topic, and of labels, by the
    times that count, see :func:`in_order`, each partition in its own order; at equal times
    predictions come first."""

    def keyed(kind: int, topic: str, p: int, begin: int, end: int) -> Iterator[Any]:
        latest, at, records = float("-inf"), begin, list[Any]()
        while at < end:
            at, start = min(at + CHUNK, end), at
            records += readers.read_span(topic, p, start, at)
            times = times_of(records)
            n = len(records) if at == end else max(0, len(records) - BEHIND)
            for record, counts in zip(records[:n], steady(times).tolist(), strict=False):
                latest = max(latest, counts)  # NaN is never the larger one
                yield latest, kind, p, record.offset, record
            records = records[n:]

    every = [
        keyed(kind, topic, p, *span)
        for kind, (topic, of) in enumerate(spans.items())
        for p, span in of.items()
    ]
    for *_, record in heapq.merge(*every):
        yield record
