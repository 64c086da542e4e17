"""TopicLearner: the learner of an application without I/O. It plays records and makes states."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, groupby
from typing import Any

import numpy as np

from stream_can.app.learner_models import LearnerModels
from stream_can.app.model_messages import ModelMessages
from stream_can.app.start import Start
from stream_can.kafka.answering import DeferredRecords
from stream_can.kafka.identity import identity_of, require_fits
from stream_can.kafka.label_readers import LabelReaders
from stream_can.kafka.played_records import PlayedRecords
from stream_can.kafka.positions import Positions
from stream_can.kafka.restored_plays import restored_plays
from stream_can.kafka.sent_record import LabelPlace, SentRecord, adopted
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Index, Memory
from stream_can.kafka.stored import StoredState
from stream_can.kafka.times import RecordTimes
from stream_can.kafka.written_correctors import WrittenCorrectors
from stream_can.learner import State, in_order, saved
from stream_can.learner.changed_settings import NOTICE, changed_limits
from stream_can.learner.learner import Learner
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_versions import adapter_of
from stream_can.learner.order import places_in_order
from stream_can.learner.sent import SentBatch
from stream_can.messages.messages import BadMessage
from stream_can.messages.records import Source

__all__ = ["TopicLearner"]

log = logging.getLogger(__name__)


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
        self.positions = Positions(settings, memory, inputs)
        self.written = WrittenCorrectors(settings, start, learner)
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
        self.record_times = RecordTimes(settings, start.formats)
        self.label_readers = LabelReaders(
            settings, start, self.models, learner.numbering, self.record_times
        )
        self.output_bytes: int | None = None
        """Maximum size of an output."""

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
        limits: dict[str, Any] = {
            "recent_mb": settings.recent_mb, "ask": settings.ask, "max_lanes": settings.max_lanes,
            "label_wait": settings.label_wait,
        }  # fmt: skip
        changed = changed_limits(saved.opened(memory.learner)[0], limits)

        def under(name: Name, corrector: Any) -> Any:
            changed.update(start.changed([(name, corrector)]))
            return start.with_settings(corrector.to_bytes(), name[0] or "")

        live = [
            (name, saved.corrector(data)) for name, data in lanes.items() if start.has_table(name)
        ]
        require_fits(saved.corrector(begins[None]), live, settings, start)
        start = start.beginning_with(begins[None])
        state = State(begins[None], lanes, memory.learner, list(lanes))
        numbering = adapter_of(saved.corrector(lanes.get(ONLY, begins[None]))).numbering
        plays = restored_plays(memory, adopted(numbering, batches), first, played or {})
        learner = Learner.from_state(state, plays.batches, **limits, under=under, whole=False)
        if changed:
            log.info(NOTICE.format(changed))
        self = cls(
            settings, start, learner,
            memory._replace(plays=plays.plays, play_starts=plays.play_starts),
            mark=stored.index.mark, inputs=stored.index.inputs,
        )  # fmt: skip
        self.positions.moved, self.former = {*stored.index.moved}, stored.index.former
        self.written.restore(stored.index, lanes, begins)
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
        sent = adopted(self.learner.numbering, sent)
        batches, known, deferred = self._batches(sent)
        refused_models = self._admit(batch for some in batches.values() for batch in some)
        read, bad, not_learned = self.label_readers.read(labels)
        first = self.learner.next_number
        events = in_order(batches, read, first)
        if deferred:
            self.learner.start_events()
        corrected = self.learner.play_sent(events, without=refused_models, until=until)
        n = len(events.sent)
        self.positions.move(sent, labels, n, self.learner)
        self.until = until
        names = {lane.name for lane in events.sent.versions} | {
            label.name for label in corrected.taught
        }
        names |= {(label.model, label.version) for label in events.labels if label.row is not None}
        self.written.touched |= names
        if not self.settings.has_lanes:
            self.written.touched |= set(self.learner.models)
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

    # -- a state ---------------------------------------------------------------------------------

    def memory(self) -> bytes:
        """Encode the memory for the next learner."""
        state = self.learner.state(without=self.learner.models)
        return self.positions.memory(state, self.learner.next_number).to_bytes()

    def index(
        self, places: Mapping[Name, int], begins: Mapping[str | None, int], memory: list[int]
    ) -> bytes:
        """Encode the index of a state whose parts were written at these offsets; note these as
        written."""
        self.written.note(places, begins)
        return Index(
            1, self.mark, identity_of(self.settings, self.start), self.positions.inputs,
            *self.written.of_index(),
            sorted(self.settings.models), self.settings.only_listed_models,
            self.settings.max_lanes, self.models.full, self.settings.switch, memory,
            time.time(), None if self.until == math.inf else self.until, self.former,
            sorted(self.positions.moved),
        ).to_bytes()  # fmt: skip
