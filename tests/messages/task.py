"""A worker and a learner in one, without topics: what becomes of records, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from stream_can import Corrector, Learner
from stream_can.app.label_reader import LabelReader
from stream_can.app.learner_models import LearnerModels
from stream_can.app.model_messages import ModelMessages
from stream_can.app.tally import Tally
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.record_corrector import RecordCorrector
from stream_can.kafka.state import Index
from stream_can.learner import Events, LateLabel
from stream_can.learner.model_name import ONLY
from stream_can.learner.switch import ON
from stream_can.messages.fields import Fields
from stream_can.messages.formats import JSON, Formats
from stream_can.messages.records import Output, Record, Source, error_headers, headers_of

__all__ = ["Record", "Task"]


class Result(msgspec.Struct):
    """What came of a batch."""

    outputs: list[Output]
    dead_letters: list[Output]
    delays: list[int]
    """Milliseconds from prediction to label, for each label that found its prediction."""
    stopped: tuple[Source, Exception] | None
    """With ``errors="fail"``: the record that could not be read, and why."""
    normalised: int = 0
    """Rows whose sum was off, and that were divided by it."""
    faults: list[tuple[Source, str]] = []
    """Predictions of which a value of a column is none, and counts as not given; and why."""


class Counts(msgspec.Struct):
    """What a task has taken since its state began."""

    predictions: int = 0
    """Records of predictions, tombstones and dead letters included."""
    corrected: int = 0
    labels: int = 0
    """Records of labels, tombstones and dead letters included."""
    matched: int = 0
    """Labels learned with their prediction: echoed, or found among the recent ones."""
    unmatched: int = 0
    """Labels that taught the prior alone."""
    dead_letters: int = 0
    handed_over: int = 0
    repeated: int = 0
    """Labels whose prediction had one before: they teach nothing."""


class Start:
    """All begin with one corrector."""

    alike = True

    def __init__(self, corrector: Corrector) -> None:
        self.classes = corrector.classes

    def train(self, classes: Any) -> Any:
        return None

    def has_settings(self, model: str) -> bool:
        return False

    def knows_classes_of(self, model: str) -> bool:
        return True

    def of_model(self, model: str) -> None:
        return None

    def of_classes(self, names: Any, model: str) -> Corrector:
        raise NotImplementedError


class Task:
    """One partition of a stream, whose labels may come in a topic of their own."""

    def __init__(
        self,
        corrector: Corrector,
        *,
        fields: Fields | None = None,
        formats: Formats = JSON,
        labels_topic: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        fields = fields or Fields()
        self.learner, self.labels_topic = Learner(corrector), labels_topic
        self.corrector = corrector
        options = {"max_lanes": 1000, "only_listed": False, "clock": time.time}
        models = LearnerModels(self.learner, Start(corrector), **options)
        segments = corrector.segments
        self._messages = ModelMessages(
            corrector.classes, fields, formats, segments, models, rows="dense"
        )
        self._labels = LabelReader(self._messages)
        self._correcting = RecordCorrector(
            fields, formats, segments, rows="dense", max_bytes=max_bytes
        )
        self.counts, self.next_prediction = Counts(), 0
        self.messages = self._messages.first
        self._tally = Tally(segments, lambda name: len(corrector.classes), named=False, sets=False,
                            rows="dense")  # fmt: skip

    def take_values(self) -> Any:
        """What became of the values of columns since the last call."""
        self._tally.committed()
        return self._tally.take_values()

    def handle(self, records: Iterable[Any]) -> Result:
        result, index = Result([], [], [], None), self._index()
        for record in records:
            self.next_prediction = max(self.next_prediction, record.offset + 1)
            if record.topic == self.labels_topic:
                self._label(record, result)
                continue
            state = CurrentState(0, index, {ONLY: self.corrector}, {None: self.corrector})
            made = self._correcting.correct_records([record], state)
            result.outputs += made.outputs
            result.dead_letters += made.dead_letters
            result.faults += made.faults
            result.normalised += made.normalised
            self.counts.corrected += made.corrected
            if made.sent is not None:
                self.learner.play_sent(Events(made.sent, []))
                self._tally.observed(len(made.sent), None, made.sent.segments or None, 0)
        return result

    def _label(self, record: Any, result: Result) -> None:
        says = self._labels.parse([record])
        for _, error in says.bad:
            headers = headers_of(record) + error_headers(record, error)
            result.dead_letters.append(
                Output(record.key, record.value, headers, record.timestamp, record)
            )
        labels: list[LateLabel] = says.labels
        found = self.learner.play([], None, labels)
        outcomes = found.outcomes
        self._tally.labelled(outcomes, found.taught)
        self.counts.matched += outcomes.count("learned")
        self.counts.repeated += outcomes.count("repeated")

    @staticmethod
    def _index() -> Index:
        return Index(1, "", {}, {}, [], [], [], False, 1000, False, ON, [], 0.0)
