"""Correct the records of a partition by a state: outputs, dead letters and a sent batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_can.app.label_reader import LabelReader
from stream_can.app.model_messages import Bad, ModelMessages
from stream_can.app.models import classes_of
from stream_can.app.prediction_reader import PredictionReader, ReadPredictions
from stream_can.kafka.corrections import Corrections, OutputWriter
from stream_can.kafka.current_state import CurrentState, StateRows
from stream_can.kafka.deferred import TimesOf, times_of
from stream_can.learner.model_name import ONLY
from stream_can.learner.sent import SentBatch
from stream_can.messages.fields import Fields
from stream_can.messages.formats import Formats
from stream_can.messages.records import Source

__all__ = ["RecordCorrector", "sent_batch_of"]


class RecordCorrector:
    """Corrects records of partitions by the current state.

    Parameters
    ----------
    fields, formats
        Fields and formats of the messages.
    segments
        Names of the declared columns.
    max_bytes
        Maximum size of an output.
    fail
        Whether to stop at an unreadable record.
    needs_id
        Whether a label without an id is unreadable.
    rows
        Name of the kind of rows.
    times
        Returns the times of records that count.
    """

    def __init__(
        self,
        fields: Fields,
        formats: Formats,
        segments: Sequence[str],
        *,
        max_bytes: int | None = None,
        fail: bool = False,
        needs_id: bool = False,
        rows: str,
        times: TimesOf = times_of,
    ) -> None:
        self._rows, self._times = rows, times
        self._fields, self._formats, self._segments = fields, formats, segments
        self._max_bytes, self._fail, self._needs_id = max_bytes, fail, needs_id
        self._messages: ModelMessages | None = None
        self._known: tuple[Any, Any] = (), None

    def messages(self, state: CurrentState) -> ModelMessages:
        """Messages of the models of a state."""
        known = classes_of(state.begins[None]), state.lookup
        if self._messages is None or known != self._known:
            self._known = known
            self._messages = ModelMessages(
                known[0], self._fields, self._formats, self._segments, state,
                rows=self._rows, numbering=state.lookup,
            )  # fmt: skip
        self._messages.models = state
        return self._messages

    def labels_of(self, state: CurrentState) -> LabelReader:
        """What reads labels of the models of a state."""
        return LabelReader(self.messages(state), needs_id=self._needs_id)

    def read_records(
        self, records: Sequence[Source], state: CurrentState
    ) -> tuple[list[ReadPredictions], Bad]:
        """Read records; return the messages and the unreadable records."""
        messages = self.messages(state)
        return PredictionReader(messages, self._max_bytes, needs_id=self._needs_id).parse(records)

    def correct_records(self, records: Sequence[Source], state: CurrentState) -> Corrections:
        """Correct records of one partition, in order."""
        groups, bad = self.read_records(records, state)
        if bad and self._fail:
            first, error = bad[0]
            corrections = self.correct_records(records[:first], state)
            corrections.stopped = records[first], error
            return corrections
        return self.correct_read(records, groups, bad, state)

    def correct_read(
        self,
        records: Sequence[Source],
        groups: Sequence[ReadPredictions],
        bad: Bad,
        state: CurrentState,
    ) -> Corrections:
        """Correct records that have been read."""
        state.admit()
        corrections = Corrections()
        writer = OutputWriter(records, state.number, state.switch, corrections)
        parts = list[tuple[ReadPredictions, StateRows]]()
        for group in groups:
            writer.write_empty(group)
            if group.ids:
                names = group.names or [ONLY] * len(group.ids)
                rows = state.correct_rows(group.rows, names, group.columns, group.messages.finished)
                parts.append((group, rows))
                writer.write(group, rows.sent, rows.sets)
        writer.finish(bad)
        if parts:
            corrections.sent = sent_batch_of(parts, records, self._segments, self._times)
        return corrections


def sent_batch_of(
    parts: Sequence[tuple[ReadPredictions, StateRows]],
    records: Sequence[Source],
    segments: Sequence[str],
    times_of: TimesOf = times_of,
) -> SentBatch:
    """Combine the predictions of all groups, in record order, numbered by offset."""
    places = np.concatenate([np.asarray(group.places, np.int64) for group, _ in parts])
    order = np.argsort(places, kind="stable")
    first, of = 0, []
    for _, rows in parts:
        of.append(rows.of + first)
        first += len(rows.lanes)
    ids = [id for group, _ in parts for id in group.ids]
    columns: dict[str, list[str | None]] = {}
    if segments:
        tables = [group.columns or {} for group, _ in parts]
        columns = {c: [text for record in tables for text in record[c]] for c in segments}
    ordered = order.tolist()
    ordered_records = [records[i] for i in places[order].tolist()]
    return SentBatch(
        [ids[i] for i in ordered],
        np.array([record.offset for record in ordered_records], np.int64),
        times_of(ordered_records),
        [lane for _, rows in parts for lane in rows.lanes],
        np.concatenate(of).astype(np.int32)[order],
        {c: [texts[i] for i in ordered] for c, texts in columns.items()},
    )
