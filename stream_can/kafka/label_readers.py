"""LabelReaders: labels from the records of their topics, each topic with fields of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stream_can.app.label_reader import LabelReader
from stream_can.app.learner_models import LearnerModels
from stream_can.app.model_messages import ModelMessages
from stream_can.app.start import Start
from stream_can.errors import StreamCANError
from stream_can.kafka.sent_record import LabelPlace
from stream_can.kafka.settings import Settings
from stream_can.kafka.times import RecordTimes
from stream_can.learner import LateLabel
from stream_can.messages.records import Source

__all__ = ["LabelReaders"]


class TimedLabels(NamedTuple):
    """Labels with their times, by topic and partition."""

    labels: dict[LabelPlace, list[LateLabel]]
    bad: list[tuple[Source, StreamCANError]]
    """Records that cannot be read."""
    not_learned: tuple[int, int]
    """Number of records that say nothing, and of labels that no model in use has."""


class LabelReaders:
    """Reads labels.

    Parameters
    ----------
    settings, start
        The topics, their fields and formats.
    models
        Models in use.
    numbering
        Numbers classes that are named in messages; None where classes are declared.
    record_times
        Times of records.
    """

    def __init__(
        self,
        settings: Settings,
        start: Start,
        models: LearnerModels,
        numbering: Any,
        record_times: RecordTimes,
    ) -> None:
        self._record_times = record_times
        self.of_topics = {
            topic: LabelReader(
                ModelMessages(
                    start.classes, fields, start.formats.of_labels(topic), start.segments, models,
                    rows=settings.rows, numbering=numbering,
                )
            )
            for topic, fields in settings.label_fields.items()
        }  # fmt: skip

    def read(self, records_of: Mapping[LabelPlace, Sequence[Source]]) -> TimedLabels:
        """Read records of labels of each partition of each topic of them."""
        without = of_nobody = 0
        labels = dict[LabelPlace, list[LateLabel]]()
        bad = list[tuple[Source, StreamCANError]]()
        for place, records in records_of.items():
            says = self.of_topics[place[0]].parse(records)
            bad += [(records[i], why) for i, why in says.bad]
            without, of_nobody = without + len(says.without), of_nobody + len(says.of_nobody)
            times = self._record_times.in_seconds(records).tolist()
            for label, i in zip(says.labels, says.places, strict=True):
                label.time = None if math.isnan(times[i]) else times[i]
            labels[place] = says.labels
        return TimedLabels(labels, bad, (without, of_nobody))
