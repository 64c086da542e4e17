"""TopicLearner: the learner of an application without I/O. It plays records and makes states."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, groupby
from typing import Any, NamedTuple

import numpy as np

from stream_can.app.label_reader import LabelReader
from stream_can.app.learner_models import LearnerModels
from stream_can.app.model_messages import ModelMessages
from stream_can.app.start import Start
from stream_can.errors import StreamCANError
from stream_can.kafka.answering import DeferredRecords
from stream_can.kafka.corrections import Corrections
from stream_can.kafka.deferred import DeferredBatch
from stream_can.kafka.identity import identity_of, require_fits
from stream_can.kafka.learned_time import LAST_TIMES
from stream_can.kafka.sent_record import LabelPlace, SentRecord
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Begin, Index, LanePlace, Memory, Play
from stream_can.kafka.stored import StoredState
from stream_can.kafka.times import RecordTimes
from stream_can.learner import Corrected, LateLabel, State, in_order, saved
from stream_can.learner.learner import Learner
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_versions import adapter_of
from stream_can.learner.order import places_in_order
from stream_can.learner.sent import SentBatch, SentVersion
from stream_can.messages.messages import BadMessage
from stream_can.messages.records import Source

__all__ = [
    "PlayedRecords",
    "TopicLearner",
]

log = logging.getLogger(__name__)


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


class TopicLearner:
    """A learner together with its positions in the topics.

    Parameters
    ----------
    settings, start
        The application's settings and initial correctors.
    learner
        The learner.
    memory
        Positions; those of the last state.
    mark
        Random identifier of the application's beginning.
    inputs
        Next offset to learn of each input partition.
    """

    def __init__(
        self,
        settings: Settings,
        start: Start,
        learner: Learner,
        memory: Memory,
        *,
        mark: str,
        inputs: Mapping[int, int],
    ) -> None:
        self.settings, self.start, self.learner, self.mark = settings, start, learner, mark
        self.former: list[str] = []
        """Marks of before it was started over."""
        learner.switch = settings.switch
        self.sent, self.inputs = dict(memory.sent), dict(inputs)
        self.moved: set[int] = set()
        """Input partitions of which ``inputs`` says nothing of what was learned, see `Index`."""
        self.labels = {topic: dict(at) for topic, at in memory.labels.items()}
        self.play_starts, self.plays = dict(memory.play_starts), deque(memory.plays)
        self.within = dict(memory.within)
        self.times, self.topics = dict(memory.times), dict(memory.topics)
        self.until = math.inf
        """Time up to which all input has been learned, in seconds."""
        self.models = LearnerModels(
            learner, start, max_lanes=settings.max_lanes,
            only_listed=settings.only_listed_models, clock=time.time,
        )  # fmt: skip
        self.messages = ModelMessages(
            start.classes, settings.fields, start.formats, start.segments, self.models,
            rows=settings.rows, numbering=learner.numbering,
        )  # fmt: skip
        self.label_readers = {
            topic: LabelReader(
                ModelMessages(
                    start.classes, fields, start.formats.of_labels(topic), start.segments,
                    self.models, rows=settings.rows, numbering=learner.numbering,
                )
            )
            for topic, fields in settings.label_fields.items()
        }  # fmt: skip
        self.record_times = RecordTimes(settings, start.formats)
        self.touched: set[Name] = set()
        """Models and versions whose correctors have changed since they were written."""
        self.places: dict[Name, int] = {}
        """Positions of the written correctors."""
        self.begins: dict[str | None, int] = {}
        self.skipped = 0
        """Number of rows of models that may not begin or have other classes."""
        self.output_bytes: int | None = None
        """Maximum size of an output."""
        self._last_play: Play | None = None
        """The last play, where it has rows that wait for labels."""

    @classmethod
    def begin(
        cls,
        settings: Settings,
        start: Start,
        sent: Mapping[int, int],
        labels: Mapping[str, dict[int, int]],
    ) -> TopicLearner:
        """Create a learner without knowledge at these offsets."""
        learner = Learner(
            start.with_settings(start.snapshot),
            recent_mb=settings.recent_mb, ask=settings.ask, label_wait=settings.label_wait,
            max_lanes=settings.max_lanes,
        )  # fmt: skip
        memory = Memory(b"", 0, dict(sent), dict(labels), dict(sent), [], {}, {})
        return cls(settings, start, learner, memory, mark=secrets.token_hex(8), inputs={})

    @classmethod
    def restored(
        cls,
        settings: Settings,
        start: Start,
        stored: StoredState,
        batches: Mapping[int, Sequence[SentRecord]],
        first: Mapping[int, int],
        played: Mapping[tuple[int, int], SentBatch] | None = None,
    ) -> TopicLearner:
        """Restore the learner that wrote a state.

        Parameters
        ----------
        stored
            The state.
        batches
            For each partition the sent batches from ``stored.memory.play_starts`` up to ``sent``.
        first
            For each partition the offset from which on all batches are present.
        played
            The batches that plays name as played, by partition and offset.
        """
        memory = stored.memory
        begins, lanes = stored.begins, stored.lanes
        live = [
            (name, saved.corrector(data)) for name, data in lanes.items() if start.has_table(name)
        ]
        require_fits(saved.corrector(begins[None]), live, settings, start)
        state = State(begins[None], lanes, memory.learner, list(lanes))
        if (
            numbering := adapter_of(saved.corrector(lanes.get(ONLY, begins[None]))).numbering
        ) is not None:
            batches = {
                p: [_adopted(numbering, record) for record in records]
                for p, records in batches.items()
            }
        plays, batch_of = _plays(memory, batches, first, played or {})
        learner = Learner.from_state(
            state, batch_of, recent_mb=settings.recent_mb, ask=settings.ask,
            max_lanes=settings.max_lanes, label_wait=settings.label_wait,
            under=lambda name, corrector: start.with_settings(corrector.to_bytes(), name[0] or ""),
            whole=False,
        )  # fmt: skip
        self = cls(
            settings, start, learner,
            memory._replace(plays=plays.plays, play_starts=plays.play_starts),
            mark=stored.index.mark, inputs=stored.index.inputs,
        )  # fmt: skip
        self.moved, self.former = {*stored.index.moved}, stored.index.former
        self.places = {place.name: place.offset for place in stored.index.lanes}
        self.begins = {begin.model: begin.offset for begin in stored.index.begins}
        # Settings may differ from those of the state.
        self.touched = {
            name for name, lane in learner.live.items()
            if name in lanes and lane.corrector.to_bytes() != lanes[name]
        }  # fmt: skip
        if self.begin_with != begins:
            self.begins = {}
        return self

    # -- play ------------------------------------------------------------------------------------

    def play(
        self,
        sent: Mapping[int, Sequence[SentRecord]],
        labels: Mapping[LabelPlace, Sequence[Source]],
        until: float = math.inf,
        state: int = 0,
    ) -> PlayedRecords:
        """Learn records after the positions, in the order of their times; correct deferred ones.

        Parameters
        ----------
        sent
            Sent and deferred batches of each partition.
        labels
            Records of labels of each partition of each topic of them.
        until
            As for :meth:`Learner.play_sent`.
        state
            Number of the state before.
        """
        if (numbering := self.learner.numbering) is not None:
            sent = {
                p: [_adopted(numbering, record) for record in records]
                for p, records in sent.items()
            }
        batches, known, deferred = self._batches(sent)
        refused_models = self._admit(batch for some in batches.values() for batch in some)
        read, bad, not_learned = self._read_labels(labels)
        first = self.learner.next_number
        events = in_order(batches, read, first)
        if deferred:
            self.learner.start_events()
        corrected = self.learner.play_sent(events, without=refused_models, until=until)
        n = len(events.sent)
        self._note(sent, labels, n)
        self.until = until
        names = {lane.name for lane in events.sent.versions} | {
            label.name for label in corrected.taught
        }
        names |= {(label.model, label.version) for label in events.labels if label.row is not None}
        self.touched |= names
        if not self.settings.has_lanes:
            self.touched |= set(self.learner.models)
        places = []
        if self.settings.ask is not None or deferred:
            places = places_in_order(batches, known)
        if not deferred:
            return PlayedRecords(corrected, events.sent, places, bad, not_learned)
        told_rows = self.learner.take_events().sent
        self.learner.stop_events()
        played: list[bool] = np.isin(events.sent.numbers, told_rows.numbers).tolist()
        answers = deferred.answers(places, corrected, state, played)
        reasons = [*compress(corrected.asked, played)]
        return PlayedRecords(
            corrected._replace(asked=reasons), told_rows, [*compress(places, played)], bad,
            not_learned, answers, n > 0,
        )  # fmt: skip

    def _batches(
        self, sent: Mapping[int, Sequence[SentRecord]]
    ) -> tuple[dict[int, list[SentBatch]], dict[int, list[bool]], DeferredRecords]:
        """Batches of rows of each partition; whether the input has those of each; and the deferred
        records among them."""
        batches, known = dict[int, list[SentBatch]](), dict[int, list[bool]]()
        deferred = DeferredRecords(
            self.messages, self.output_bytes, self.models,
            declared=self.learner.numbering is None, switch=self.learner.switch,
        )  # fmt: skip
        for p, records in sent.items():
            batches[p], known[p] = [], []
            for is_deferred, group in groupby(records, lambda record: record.is_deferred):
                run = [*group]
                rows: list[Any] = [record.batch for record in run]
                if is_deferred:
                    rows = deferred.read_batches(p, rows)
                batches[p] += rows
                known[p] += [record.next is not None for record in run[: len(rows)]]
        return batches, known, deferred

    def _admit(self, batches: Iterable[SentBatch]) -> set[Name]:
        """Begin the models of new rows as the workers began them; return the models that may not
        begin."""
        refused_models = set[Name]()
        if not self.settings.has_lanes:
            return refused_models
        known = self.models.classes()
        for batch in batches:
            for lane in batch.versions:
                if lane.name in known or lane.name in refused_models:
                    continue
                try:
                    self.models.begin(lane.name, lane.classes)
                except BadMessage:
                    refused_models.add(lane.name)
                    continue
                self.models.admit()
        return refused_models

    def _read_labels(
        self, labels: Mapping[LabelPlace, Sequence[Source]]
    ) -> tuple[
        dict[LabelPlace, list[LateLabel]],
        list[tuple[Source, StreamCANError]],
        tuple[int, int],
    ]:
        """Labels, those that cannot be read, and how many others say nothing or are of nobody."""
        without = of_nobody = 0
        read = dict[LabelPlace, list[LateLabel]]()
        bad = list[tuple[Source, StreamCANError]]()
        for place, records in labels.items():
            says = self.label_readers[place[0]].parse(records)
            bad += [(records[i], why) for i, why in says.bad]
            without, of_nobody = without + len(says.without), of_nobody + len(says.of_nobody)
            times = self.record_times.in_seconds(records).tolist()
            for label, i in zip(says.labels, says.places, strict=True):
                label.time = None if math.isnan(times[i]) else times[i]
            read[place] = says.labels
        return read, bad, (without, of_nobody)

    def after(
        self, sent: Mapping[int, Sequence[SentRecord]]
    ) -> tuple[dict[int, int], dict[int, list[float]]]:
        """``inputs`` and ``times`` after these batches."""
        inputs, times = dict(self.inputs), dict(self.times)
        for p, records in sent.items():
            if not records:
                continue
            places = [record.next for record in records if record.next is not None]
            inputs |= {p: places[-1]} if places else {}
            row_times = np.concatenate([record.batch.times for record in records])
            if len(row_times):  # batches without rows have no time
                known: list[float] = row_times[~np.isnan(row_times)][-LAST_TIMES:].tolist()
                times[p] = [*times.get(p, ()), *known][-LAST_TIMES:]
        return inputs, times

    def _note(
        self, sent: Mapping[int, Sequence[SentRecord]],
        labels: Mapping[LabelPlace, Sequence[Source]], rows: int,
    ) -> None:  # fmt: skip
        """Move the positions past what was played."""
        ends = {}
        self.inputs, self.times = self.after(sent)
        for p, sent_records in sent.items():
            if sent_records:
                last = sent_records[-1]
                ends[p] = self.sent[p] = last.offset + (not last.partly)
                self.within.pop(p, None)
                if any(record.next is not None for record in sent_records):
                    self.moved.discard(p)
                if last.partly:
                    self.within[p] = last.skipped + len(last.batch)
        for (topic, p), records in labels.items():
            if records:
                self.labels.setdefault(topic, {})[p] = records[-1].offset + 1
        self._last_play = Play(rows, ends) if rows else None
        if self._last_play is not None:
            self.plays.append(self._last_play)
        at = self.learner.next_number - sum(play.rows for play in self.plays)
        while self.plays and at + self.plays[0].rows <= self.learner.oldest:
            forgotten = self.plays.popleft()
            at += forgotten.rows
            self.play_starts.update(forgotten.ends)
        if not self.plays:
            self._last_play = None

    def positions(self) -> list[tuple[str, dict[int, int]]]:
        """The topics that are read, with the next offsets of their partitions."""
        labels = self.settings.topics_of_labels
        return [
            (self.settings.sent_topic, self.sent),
            *((topic, self.labels.setdefault(topic, {})) for topic in labels),
        ]

    def go_on_within(
        self,
        topic: str,
        id: str,
        at: dict[int, int],
        spans: Mapping[int, tuple[int, int]],
    ) -> dict[int, int]:
        """Move positions to what a topic holds: retention may have deleted records, or the topic
        may be another one of the same name.

        Parameters
        ----------
        topic, id
            Name and id of the topic.
        at
            The next offset of each partition, `sent` or one of `labels`; changed.
        spans
            First available and next offset of each partition.

        Returns
        -------
        The former position of each partition that moved.
        """
        made_again = self.topics.get(topic, id) != id
        self.topics[topic] = id
        moved = {}
        for p, was in list(at.items()):
            begin, end = spans.get(p, (0, -1))
            if end < 0:  # of a topic with fewer partitions
                del at[p]
            else:
                at[p] = begin if made_again else min(max(was, begin), end)
            if at.get(p) != was:
                moved[p] = was
        if moved and at is self.sent:  # a restart cannot play again what was played together
            self.plays.clear()
            self.play_starts = dict(self.sent)
            for p in moved:
                self.within.pop(p, None)
        return moved

    # -- a state ---------------------------------------------------------------------------------

    def told(self, places: Sequence[tuple[int, int]]) -> None:
        """Record where the rows of the last play, some of them corrected by it, lie."""
        if self._last_play is not None:
            self.plays[-1] = self._last_play._replace(played=tuple(places))

    def changed(self) -> tuple[list[tuple[Name, bytes]], list[tuple[str | None, bytes]]]:
        """The correctors and initial correctors to be written, keyed by `corrector_key` and
        `begin_key`."""
        live = self.learner.live if self.learner.models else {}
        names = [name for name in live if name in self.touched or name not in self.places]
        begins = [] if self.begins else list(self.begin_with.items())
        return [(name, live[name].corrector.to_bytes()) for name in names], begins

    @property
    def begin_with(self) -> dict[str | None, bytes]:
        """Initial correctors; None is the common one."""
        start = self.start
        begins: dict[str | None, bytes] = {None: start.with_settings(start.snapshot).to_bytes()}
        for model in self.settings.models:
            if (corrector := start.of_model(model)) is not None:
                begins[model] = corrector.to_bytes()
        return begins

    def gone(self) -> list[Name]:
        """Models and versions that were dropped but are still stored."""
        live = set(self.learner.models)
        return [name for name in self.places if name not in live]

    def memory(self) -> bytes:
        """Encode the memory for the next learner."""
        state = self.learner.state(without=self.learner.models)
        return Memory(
            state.memory, self.learner.next_number, self.sent, self.labels, self.play_starts,
            list(self.plays), self.times, self.topics, self.within,
        ).to_bytes()  # fmt: skip

    def index(
        self, places: Mapping[Name, int], begins: Mapping[str | None, int], memory: list[int]
    ) -> bytes:
        """:meth:`index_of`; also record its content as written."""
        for name in self.gone():
            del self.places[name]
        self.places.update(places)
        self.begins.update(begins)
        self.touched.clear()
        return self.index_of(self.places, self.begins, memory).to_bytes()

    def index_of(
        self, places: Mapping[Name, int], begins: Mapping[str | None, int], memory: list[int]
    ) -> Index:
        """The index of a state whose parts are stored at these offsets."""
        live = self.learner.live
        return Index(
            1, self.mark, identity_of(self.settings, self.start), self.inputs,
            [LanePlace(*name, at, live[name].after) for name, at in places.items()],
            [Begin(model, offset) for model, offset in begins.items()],
            sorted(self.settings.models), self.settings.only_listed_models,
            self.settings.max_lanes, self.models.full, self.settings.switch, memory,
            time.time(), None if self.until == math.inf else self.until, self.former,
            sorted(self.moved),
        )  # fmt: skip


def _adopted(numbering: Any, record: SentRecord) -> SentRecord:
    """A sent batch in the numbers that classes have here, without rows for whose new classes there
    is no room: workers let them pass that did not know yet."""
    batch = record.batch
    if isinstance(batch, DeferredBatch):
        return record
    has_room, lanes = np.ones(len(batch), np.bool_), list[SentVersion]()
    for k, lane in enumerate(batch.versions):
        adopted, has_room[batch.of == k] = numbering.adopted(lane)
        lanes.append(adopted)
    return record._replace(batch=batch.of_versions(lanes, np.flatnonzero(has_room)))


class _RestoredPlays(NamedTuple):
    plays: list[Play]
    play_starts: dict[int, int]


def _plays(
    memory: Memory,
    batches: Mapping[int, Sequence[SentRecord]],
    first: Mapping[int, int],
    played: Mapping[tuple[int, int], SentBatch],
) -> tuple[_RestoredPlays, list[SentBatch]]:
    """Restore the plays of a memory, with the batches in their original order."""
    plays, last = list(memory.plays), dict(memory.play_starts)
    spans = []
    for play in plays:
        spans.append({p: (last.get(p, 0), end) for p, end in play.ends.items()})
        last.update(play.ends)
    missing = [
        i for i, span in enumerate(spans)
        if (
            any(place not in played for place in plays[i].played) if plays[i].played
            else any(start < first.get(p, 0) for p, (start, _) in span.items())
        )
    ]  # fmt: skip
    at = missing[-1] + 1 if missing else 0
    play_starts = dict(memory.play_starts)
    number = memory.number - sum(play.rows for play in plays[at:])
    queues = {p: deque(records) for p, records in batches.items()}
    restored = list[SentBatch]()
    for i in range(at, len(plays)):
        play, span = plays[i], spans[i]
        of_partitions: dict[int, list[SentBatch]] = {}
        for p, (start, end) in span.items():
            queue = queues.get(p, deque())
            while queue and queue[0].offset < end:
                record = queue.popleft()
                if record.offset >= start and isinstance(record.batch, SentBatch):
                    of_partitions.setdefault(p, []).append(record.batch)
        number += play.rows
        if play.played:
            restored += [played[place] for place in play.played]
            continue
        merged = in_order(of_partitions, {}, number - play.rows).sent
        restored.append(merged)
        if len(merged) != play.rows:  # brokers lost some, or hold them twice
            log.error(
                "sent batches of offsets %s hold %d rows, the memory says %d: labels of these and"
                " of earlier predictions will find none", span, len(merged), play.rows
            )  # fmt: skip
            restored, at = [], i + 1
    for play in plays[:at]:
        play_starts.update(play.ends)
    return _RestoredPlays(plays[at:], play_starts), restored
