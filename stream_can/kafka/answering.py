"""Answer deferred records: their rows for the learner that corrects them, then their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from stream_can.app.learner_models import LearnerModels
from stream_can.app.model_messages import ModelMessages
from stream_can.app.prediction_reader import PredictionReader, ReadPredictions
from stream_can.errors import StreamCANError
from stream_can.kafka.corrections import Corrections, OutputWriter
from stream_can.kafka.current_state import StateRows
from stream_can.kafka.deferred import DeferredBatch
from stream_can.kafka.record_corrector import sent_batch_of
from stream_can.learner.call import Corrected
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.sent import SentBatch, SentVersion
from stream_can.learner.switch import CorrectionSwitch
from stream_can.messages.messages import BadMessage
from stream_can.messages.records import Source

__all__ = ["DeferredRecords"]


class _ReadRun(NamedTuple):
    """Deferred records of a partition that follow each other, read."""

    partition: int
    records: list[Source]
    groups: list[ReadPredictions]
    bad: list[tuple[int, StreamCANError]]


class DeferredRecords:
    """The deferred records of one play.

    Parameters
    ----------
    messages
        Messages of the models of the learner.
    max_bytes
        Maximum size of an output.
    models
        Models and versions of the learner.
    declared
        Whether classes are declared.
    switch
        Whether models are corrected.
    """

    def __init__(
        self, messages: ModelMessages, max_bytes: int | None, models: LearnerModels,
        *, declared: bool, switch: CorrectionSwitch,
    ) -> None:  # fmt: skip
        self._messages, self._models = messages, models
        self._reader = PredictionReader(messages, max_bytes)
        self._declared, self._switch = declared, switch
        self._runs: list[_ReadRun] = []

    def __len__(self) -> int:
        return sum(len(run.records) for run in self._runs)

    def read_batches(self, partition: int, batches: Sequence[DeferredBatch]) -> list[SentBatch]:
        """Read batches of a partition that follow each other; return their rows, which are to be
        corrected, numbered by offset, as one batch; none without rows."""
        records: list[Source] = [record for batch in batches for record in batch.records]
        groups, bad = self._reader.parse(records)
        self._models.admit()
        self._runs.append(_ReadRun(partition, records, groups, bad))
        parts = [(group, self._rows(group)) for group in groups if group.ids]
        if not parts:
            return []
        batch = sent_batch_of(parts, records, self._messages.segments)
        times = np.concatenate([batch.times for batch in batches])
        places = np.sort(np.concatenate([np.asarray(group.places) for group, _ in parts]))
        return [replace(batch, times=times[places])]

    def _rows(self, group: ReadPredictions) -> StateRows:
        """Rows of a group as lanes that are to be corrected."""
        names, rows = group.names or [ONLY] * len(group.ids), _rows_as_array(group.rows)
        lanes = dict.fromkeys(names)
        numbers = {name: k for k, name in enumerate(lanes)}
        of = np.array([numbers[name] for name in names], np.int32)
        sent = [
            SentVersion(name, self._classes(name), rows[of == k], (), False)
            for name, k in numbers.items()
        ]
        return StateRows(rows, sent, of, None)

    def _classes(self, name: Name) -> tuple[Any, ...]:
        if not self._declared:
            return ()
        classes: tuple[Any, ...] = self._models.classes().get(name, self._messages.first.classes)
        return classes

    def answers(
        self,
        places: Sequence[tuple[int, int | None]],
        corrected: Corrected,
        number: int,
        played: Sequence[bool],
    ) -> dict[int, Corrections]:
        """Outputs and dead letters of each partition, from the results of the play.

        Parameters
        ----------
        places
            Partition and offset of each row of the play, in its order.
        corrected
            Its results.
        number
            Number of the state before it.
        played
            Whether each row was played: a model may have been dropped for others.
        """
        at = {place: i for i, place in enumerate(places)}
        every: dict[int, Corrections] = {}
        for run in self._runs:
            answer = every.setdefault(run.partition, Corrections())
            writer = OutputWriter(run.records, number, self._switch, answer)
            bad = list(run.bad)
            for group in run.groups:
                writer.write_empty(group)
                if not group.ids:
                    continue
                rows = [at[run.partition, run.records[i].offset] for i in group.places]
                if all(played[row] for row in rows):
                    self._write(group, rows, corrected, writer)
                else:  # all of them: rows that differ in length cannot be written together
                    why = BadMessage("more models began at once than max_lanes")
                    bad += [(i, why) for i in group.places]
            writer.finish(sorted(bad, key=lambda fault: fault[0]))
        return every

    @staticmethod
    def _write(
        group: ReadPredictions, at: Sequence[int], corrected: Corrected, writer: OutputWriter
    ) -> None:
        """Write the outputs of a group whose rows have these indices in the play."""
        rows: Any = [corrected.rows[i] for i in at]
        if not isinstance(corrected.rows, list):
            rows = np.stack(rows)
        sets = None if corrected.sets is None else [corrected.sets[i] for i in at]
        writer.write(group, group.messages.finished(rows), sets)


def _rows_as_array(rows: Any) -> Any:
    """Rows of a group, shape (n, m); objects, shape (n, 1), of sparse rows."""
    if isinstance(rows, np.ndarray) and rows.dtype != np.object_:
        return rows
    column = np.empty((len(rows), 1), np.object_)
    for i, row in enumerate(rows):
        column[i, 0] = row
    return column
