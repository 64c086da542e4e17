"""Backfill: play the history of topics offline into a first state, so a deployment starts warm.

The records are corrected and learned as the learner does it with a topic that has a history: one
after the other in the order of time, with every label before them. Nothing is sent, and no consumer
group is needed.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from stream_can.app.health import Health
from stream_can.app.metrics import Metrics
from stream_can.app.models import DeclaredCorrector
from stream_can.app.start import Start
from stream_can.app.tally import Tally
from stream_can.change import Changes
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.correcting_role import CorrectingRole
from stream_can.kafka.deferred import TimesOf
from stream_can.kafka.learning_role import LearningRole
from stream_can.kafka.played_history import PlayedHistory
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import start_of
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner.model_name import ONLY
from stream_can.learner.order import BEHIND, steady
from stream_can.learner.totals import hit_rate, total

__all__ = ["Backfill", "backfill"]

log = logging.getLogger(__name__)

CHUNK = 5_000
"""Records read at a time from one partition; as many of each partition are held in memory."""


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
        if learns.recovery.has_state():
            raise DeniedError(
                f"topic {settings.state_topic!r} has a state; give another application_id"
            )
    try:
        topics = [settings.input, *settings.topics_of_labels]
        spans = {topic: readers.spans(topic) for topic in topics}
        learning = TopicLearner.begin(settings, start, dict.fromkeys(spans[settings.input], 0), {})
        played = PlayedHistory(settings, start, learning)
        played.play(_merged(readers, spans, learning.record_times.in_seconds))
    finally:
        readers.close()
    ends = {topic: {p: end for p, (_, end) in of.items()} for topic, of in spans.items()}
    learning.positions.labels = {topic: dict(ends[topic]) for topic in settings.topics_of_labels}
    learning.positions.inputs |= ends[settings.input]
    if start_group:
        learns.first_state.begin_with(learning, played.played)
        offsets = {(settings.input, p): end for p, end in ends[settings.input].items()}
        work.client.set_offsets(offsets)
    return Backfill(learning, played.tally, ends, played.changes, played.commonest)


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
