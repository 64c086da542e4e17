"""Backfill: play the history of topics offline into a first state, so a deployment starts warm.

The records are corrected as a worker would correct them, by states as old as those of a running
application, and learned at once. Nothing is sent, and no consumer group is needed.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_can.app.health import Health
from stream_can.app.metrics import Metrics
from stream_can.app.models import DeclaredCorrector
from stream_can.app.start import Start
from stream_can.app.tally import Tally
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.correcting import UnreadableRecord, Work, offset_of
from stream_can.kafka.corrections import Correcting, CurrentState, corrector_of
from stream_can.kafka.learner import Learns
from stream_can.kafka.memory import SentRecord, TopicLearner
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import start_of
from stream_can.learner.kinds import hit_rate, total
from stream_can.learner.lane import ONLY, Name
from stream_can.learner.order import BEHIND, steady

__all__ = ["Backfill", "backfill"]

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
"""Rows between two progress lines in the log."""
CHUNK = 5_000
"""Records read at a time from one partition; as many of each partition are held in memory."""
TOGETHER = 500
"""Records corrected by the same state."""


class Backfill(NamedTuple):
    """Result of playing a history."""

    learning: TopicLearner
    tally: Tally
    ends: dict[str, dict[int, int]]
    """Next offset of each partition of "input" and "labels"."""

    @property
    def corrector(self) -> DeclaredCorrector:
        """The corrector; with several models, the initial one of new models."""
        live = self.learning.learner.live
        one = live[ONLY].corrector if ONLY in live else self.learning.start.corrector()
        return one

    def to_dict(self) -> dict[str, Any]:
        """Counts, final offsets, and accuracy and log loss before and after correction."""
        learner = self.learning.learner
        found: dict[str, Any] = dict(self.tally.counts)
        raw, sent = total(learner.scores)
        found["scored"] = raw.n
        for stage, scores in (("before", raw), ("after", sent)):
            if scores.n:
                name = hit_rate(scores)
                found[stage] = {name: getattr(scores, name), "log_loss": scores.log_loss}
        if self.learning.settings.has_lanes:
            found["lanes"] = [
                {"model": name[0] or "", "version": name[1] or "", "labels": one.corrector.n_labels}
                for name, one in sorted(learner.live.items(), key=str)
            ]
        found["next_offsets"] = self.ends
        return found


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
    work = Work(settings, start, Metrics(), Health(60))
    learns = Learns(settings, start_of(settings), Metrics())
    try:
        return _backfill(settings, start, work, learns, start_group)
    finally:
        for role in (work, learns):
            role.close()
            role.client.close(leave=False)


def _backfill(
    settings: Settings, start: Start, work: Work, learns: Learns, start_group: bool
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
        topics = {"input": settings.input, "labels": settings.labels}
        spans = {kind: readers.spans(topic) for kind, topic in topics.items() if topic is not None}
        learning = TopicLearner.begin(settings, start, dict.fromkeys(spans["input"], 0), {})
        played = _History(settings, start, learning)
        played.play(_merged(readers, topics, spans))
    finally:
        readers.close()
    ends = {kind: {p: end for p, (_, end) in of.items()} for kind, of in spans.items()}
    learning.labels = dict(ends.get("labels", {}))
    learning.inputs |= ends["input"]
    if start_group:
        learns.begin_with(learning, played.batches)
        offsets = {(settings.input, p): end for p, end in ends["input"].items()}
        work.client.set_offsets(offsets)
    return Backfill(learning, played.tally, ends)


class _History:
    """Plays records in the order of their times."""

    def __init__(self, settings: Settings, start: Start, learning: TopicLearner) -> None:
        self._input, self._learning = settings.input, learning
        self._fail = settings.errors == "fail"
        self._correcting = Correcting(
            settings.fields, start.formats, start.segments, fail=self._fail, rows=settings.rows,
        )  # fmt: skip
        self.tally = Tally(
            start.segments, lambda name: len(learning.models.classes().get(name, start.classes)),
            named=settings.has_lanes, sets=False, rows=settings.rows,
        )  # fmt: skip
        self.batches: dict[int, list[SentRecord]] = {}
        """Sent batches that recent predictions may refer to, numbered from 0."""
        self._n: dict[int, int] = {}

    def play(self, records: Iterator[Any]) -> None:
        """Play all records."""
        said, some, n = time.monotonic(), list[Any](), 0
        for n, record in enumerate(records, 1):
            some.append(record)
            if len(some) >= TOGETHER:
                self._play(some)
                some = []
                if time.monotonic() - said > EVERY_SECONDS:
                    said = time.monotonic()
                    log.info("%d records", n)
        self._play(some)
        log.info("%d records", n)

    def _play(self, records: list[Any]) -> None:
        learning, state = self._learning, self._state()
        inputs: dict[int, list[Any]] = {}
        labels: dict[int, list[Any]] = {}
        for one in records:
            of = inputs if one.topic == self._input else labels
            of.setdefault(one.partition, []).append(one)
        sent: dict[int, list[SentRecord]] = {}
        for p, some in inputs.items():
            made = self._correcting.correct(some, state)
            if made.stopped is not None:
                record, error = made.stopped
                raise UnreadableRecord(f"{offset_of(record)}: {error}") from error
            self.tally.answered(len(some), made.corrected)
            self.tally.counts["dead_letters"] += len(made.dead_letters)
            if made.sent is not None:
                times = made.sent.times
                np.minimum(times, time.time(), out=times)  # clocks that are ahead; NaN stays
                number = self._n.get(p, 0)
                self._n[p] = number + 1
                sent[p] = [SentRecord(number, made.sent)]
                self.batches.setdefault(p, []).extend(sent[p])
        played = learning.play(sent, labels)
        if self._fail and played.bad:
            record, error = played.bad[0]
            raise UnreadableRecord(f"{offset_of(record)}: {error}") from error
        self.tally.labelled(played.found.outcomes, played.found.taught, learning.learner.held)
        self.tally.refuse(len(played.bad), labels=True)
        self.tally.committed()
        for p, kept in self.batches.items():
            begun = learning.begun.get(p, 0)
            self.batches[p] = [one for one in kept if one.offset >= begun]

    def _state(self) -> CurrentState:
        """The current state."""
        learning = self._learning
        correctors: dict[Name, DeclaredCorrector] = {
            name: one.corrector
            for name, one in learning.learner.live.items()
            if learning.learner.models
        }
        begins = {model: corrector_of(data) for model, data in learning.begin_with.items()}
        return CurrentState(-1, learning.index_of({}, {}, []), correctors, begins)


def _merged(
    readers: Readers, topics: Mapping[str, str | None],
    spans: Mapping[str, Mapping[int, tuple[int, int]]],
) -> Iterator[Any]:  # fmt: skip
    """Merge the records of all partitions by the times that count, see :func:`in_order`, each
    partition in its own order; at equal times predictions come first."""

    def keyed(kind: int, topic: str, p: int, begin: int, end: int) -> Iterator[Any]:
        latest, at, records = float("-inf"), begin, list[Any]()
        while at < end:
            at, start = min(at + CHUNK, end), at
            records += readers.read(topic, p, start, at)
            times = np.array([one.timestamp for one in records], float)
            times[times < 0] = np.nan
            n = len(records) if at == end else max(0, len(records) - BEHIND)
            for record, counts in zip(records[:n], steady(times).tolist(), strict=False):
                latest = max(latest, counts)  # NaN is never the larger one
                yield latest, kind, p, record.offset, record
            records = records[n:]

    every = [
        keyed(kind == "labels", topics[kind] or "", p, *span)
        for kind, of in spans.items()
        for p, span in of.items()
    ]
    for *_, record in heapq.merge(*every):
        yield record
