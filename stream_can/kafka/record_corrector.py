"""Correct the records of a partition by a state: outputs, dead letters and a sent batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.app.correctors_in_use import CorrectorInUse, CorrectorsInUse
from stream_can.app.label_reader import LabelReader
from stream_can.app.model_messages import Bad, Classes, ModelMessages
from stream_can.app.models import DeclaredCorrector, LiveModels, classes_of, train_prior_of
from stream_can.app.prediction_reader import PredictionReader, ReadPredictions
from stream_can.app.start import NO_CLASSES
from stream_can.app.tally import lane_name
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.kafka.deferred import TimesOf, times_of
from stream_can.kafka.headers import STATE_HEADER
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Index
from stream_can.learner import saved
from stream_can.learner.kinds import Id
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_version import predecessor
from stream_can.learner.model_versions import adapter_of
from stream_can.learner.sent import SentBatch, SentVersion
from stream_can.learner.switch import ON, CorrectionSwitch
from stream_can.messages.columns import Table
from stream_can.messages.fields import Fields
from stream_can.messages.formats import Formats
from stream_can.messages.records import Header, Output, Source, dead_letter_of, headers_of
from stream_can.row_kinds import kind_of
from stream_can.version import __version__

__all__ = ["VERSION_HEADER", "Corrections", "CurrentState", "corrector_of"]

VERSION_HEADER: Header = ("stream-can-version", __version__.encode())
OFF_HEADER: Header = ("stream-can-corrected", b"false")
"""Header of an output that is its prediction as it came, because correction is switched off."""

Array = NDArray[np.float64]


def corrector_of(data: bytes) -> DeclaredCorrector:
    """Restore the corrector of a snapshot; SnapshotMismatch where it is invalid, or no topic holds
    such rows."""
    corrector: DeclaredCorrector = saved.corrector(data)
    kind = kind_of(corrector)
    if "topics" not in kind.has:
        raise SnapshotMismatch(f"snapshot: of {kind.described}, which no topic holds")
    return corrector


class StateBegins:
    """Initial correctors as a state records them; see :class:`stream_can.app.models.Begins`."""

    def __init__(
        self, begins: Mapping[str | None, DeclaredCorrector], listed: Sequence[str]
    ) -> None:
        self._begins, self._listed = begins, {*listed}

    @property
    def classes(self) -> Classes:
        """Classes of a model without its own."""
        return classes_of(self._begins[None])

    def train(self, classes: Classes) -> Array | None:
        """Training prior, shape (m,), of a model with these classes, where known."""
        return train_prior_of(self._begins.values(), classes)

    @property
    def alike(self) -> bool:
        """Whether all models have the same classes."""
        known = {classes_of(corrector) for corrector in self._begins.values()}
        return len(known) == 1 and self.classes != NO_CLASSES

    def has_settings(self, model: str) -> bool:
        """Whether a model has a table in the settings."""
        return model in self._listed

    def knows_classes_of(self, model: str) -> bool:
        """Whether the classes of a model are known."""
        return self.classes != NO_CLASSES or model in self._begins

    def of_model(self, model: str) -> DeclaredCorrector | None:
        """Own initial corrector of a model; None where it starts with the common one."""
        return self._begins.get(model)

    def of_classes(self, names: Sequence[Any], model: str) -> DeclaredCorrector:
        """Initial corrector of a model whose first message names its classes."""
        like = self._begins.get(model, self._begins[None])
        settings = dict(like.settings, sets=like.sets)
        corrector: DeclaredCorrector = kind_of(like).new(names, settings)
        return corrector


class StateRows(NamedTuple):
    """Rows corrected by a state."""

    sent: Array
    """Output rows, shape (n, m)."""
    lanes: list[SentVersion]
    of: NDArray[np.int32]
    """Index of the lane of each row, shape (n,)."""
    sets: list[Any] | None
    """Prediction set of each row, likeliest class first; None without sets."""


class CurrentState(LiveModels):
    """A state in use by a worker. Models that begin before the next state are added to its own.

    Parameters
    ----------
    number
        Of the state.
    index
        Of the state.
    correctors
        Corrector of each model and version.
    begins
        Own initial correctors of models; None: the common one.
    switch
        Whether the worker corrects, as its own settings say; the state says whether all do.
    """

    def __init__(
        self,
        number: int,
        index: Index,
        correctors: Mapping[Name, DeclaredCorrector],
        begins: Mapping[str | None, DeclaredCorrector],
        switch: CorrectionSwitch = ON,
    ) -> None:
        super().__init__(
            StateBegins(begins, index.listed),
            max_lanes=index.max_lanes,
            only_listed=index.only_listed,
            clock=time.time,
        )
        self.number, self.index = number, index
        self.switch = index.switch.both(switch)
        self.correctors, self.begins = dict(correctors), dict(begins)
        self._classes = {name: classes_of(corrector) for name, corrector in self.correctors.items()}

    @property
    def full(self) -> bool:
        """Whether the learner has said that no model may begin now, or too many did since."""
        return self.index.full or super().full

    def classes(self) -> Mapping[Name, Classes]:
        """Classes of each model and version."""
        return self._classes

    def holders(self, id: Id, name: Name) -> list[Name]:
        """Return nothing: a worker keeps no predictions."""
        return []

    def _correctors(self) -> Mapping[Name, DeclaredCorrector]:
        return self.correctors

    def _bytes_of_new(self) -> int:
        return adapter_of(self.begins[None]).nbytes

    def _begin_model(self, name: Name, corrector: DeclaredCorrector | None) -> None:
        initial = corrector or self.begins[None]
        classes = classes_of(initial)
        alike = {
            of: candidate
            for of, candidate in self.correctors.items()
            if self._classes[of] == classes
        }
        former = predecessor(name, alike)
        self.correctors[name] = initial if former is None else alike[former].successor()
        self._classes[name] = classes

    def known(self, settings: Settings) -> CorrectorsInUse:
        """Correctors of the state, for display."""
        live = {
            place.name: (self.correctors[place.name], place.after) for place in self.index.lanes
        }
        known = known_of(settings, self.number, self.index.time, live, self.begins[None])
        return known._replace(switch=self.switch)

    def correct_rows(
        self,
        P: Array,
        names: Sequence[Name],
        columns: Table | None,
        finish: Callable[[Array], Array] | None = None,
    ) -> StateRows:
        """Correct rows of models with the same classes, shape (n, m); ``finish`` rounds them."""
        lanes = list(dict.fromkeys(names)) or [ONLY]
        if len(lanes) == 1:
            sent, lane, sets = self._correct(lanes[0], P, columns, finish)
            return StateRows(sent, [lane], np.zeros(len(P), np.int32), sets)
        numbers = {name: k for k, name in enumerate(lanes)}
        of = np.array([numbers[name] for name in names], np.int32)
        sent, every, all_sets = np.empty_like(P), list[SentVersion](), None
        for k, name in enumerate(lanes):
            rows_of_lane, lane_columns = np.flatnonzero(of == k), columns
            if columns is not None:
                lane_columns = {
                    c: [texts[i] for i in rows_of_lane.tolist()] for c, texts in columns.items()
                }
            sent[rows_of_lane], lane, sets = self._correct(
                name, P[rows_of_lane], lane_columns, finish
            )
            every.append(lane)
            if sets is not None:
                all_sets = all_sets or [None] * len(P)
                for i, prediction_set in zip(rows_of_lane.tolist(), sets, strict=True):
                    all_sets[i] = prediction_set
        return StateRows(sent, every, of, all_sets)

    def _correct(
        self,
        name: Name,
        P: Array,
        columns: Table | None,
        finish: Callable[[Array], Array] | None,
    ) -> tuple[Array, SentVersion, list[Any] | None]:
        """Correct rows of one model and version: output rows, what is told of them, and sets."""
        kind = self._kind(name)
        kind.passes = not self.switch.is_on(name[0])
        Q, receipts, sets = kind.corrected(P, columns)
        if finish is not None:
            Q = finish(Q)
        return Q, kind.sent_version(name, P, Q, receipts), sets

    @cached_property
    def lookup(self) -> Any:
        """See `Kind.lookup`; of models classes are declared."""
        if adapter_of(self.begins[None]).lookup is None:
            return None
        return self._kind(ONLY).lookup

    def given_rows(self, P: Any) -> Any:
        """Rows that are to be corrected, for :meth:`correct_rows`."""
        return adapter_of(self.begins[None]).given_rows(P)

    def _kind(self, name: Name) -> Any:
        corrector = self.corrector(name)
        return kind_of(corrector).adapter(corrector)

    def corrector(self, name: Name) -> DeclaredCorrector:
        """The corrector of a model and version; creates it where new."""
        if name not in self.correctors:
            self._begin_model(name, self._start.of_model(name[0] or ""))
        return self.correctors[name]


def known_of(
    settings: Settings,
    number: int,
    when: float,
    live: Mapping[Name, tuple[DeclaredCorrector, str | None]],
    first: DeclaredCorrector,
) -> CorrectorsInUse:
    """Correctors in use, for display.

    Parameters
    ----------
    number, when
        Number of the state, and the time it was written, in seconds since 1970.
    live
        Corrector of each model and version, and the version from which it was started.
    first
        The common initial corrector.
    """
    lanes, named = None, settings.has_lanes
    if named:
        lanes = {lane_name(name): CorrectorInUse(*lane) for name, lane in live.items()}
    corrector = first if named or not live else next(iter(live.values()))[0]
    return CorrectorsInUse(
        corrector, number, int(1000 * when), settings.sets, lanes, settings.max_lanes,
        switch=settings.switch,
    )  # fmt: skip


@dataclass
class Corrections:
    """Results of the records of a partition."""

    outputs: list[Output] = field(default_factory=list)
    dead_letters: list[Output] = field(default_factory=list)
    sent: SentBatch | None = None
    """Sent batch for the learner; None without rows."""
    stopped: tuple[Source, StreamCANError] | None = None
    """The first unreadable record where processing is to stop; those before it are included."""
    corrected: int = 0
    without_id: list[Source] = field(default_factory=list)
    """Predictions that no label can find."""
    normalised: int = 0
    """Rows whose sum deviated from 1 and that were divided by it."""
    faults: list[tuple[Source, str]] = field(default_factory=list)
    """Predictions with an invalid column value (treated as missing), with the reason."""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Arguments of :meth:`Tally.answered`."""
        return len(self.outputs), self.corrected, len(self.dead_letters), len(self.without_id)


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
        outputs: list[Output | None] = [None] * len(records)
        headers = [VERSION_HEADER, (STATE_HEADER, b"%d" % state.number)]
        dropped = self.messages(state).first.predictions.dropped
        corrections.dead_letters += letters_of(records, bad)
        parts = list[tuple[ReadPredictions, StateRows]]()
        for group in groups:
            for i in group.empty:
                outputs[i] = output_of(records[i], None, headers, dropped)
            if group.ids:
                rows = self._group(group, state)
                parts.append((group, rows))
                write_group(
                    group,
                    rows.sent,
                    rows.sets,
                    state.switch,
                    records,
                    outputs,
                    headers,
                    corrections,
                )
        corrections.outputs = [output for output in outputs if output is not None]
        if parts:
            corrections.sent = sent_batch_of(parts, records, self._segments, self._times)
        return corrections

    def _group(self, group: ReadPredictions, state: CurrentState) -> StateRows:
        """Correct predictions of models with the same classes."""
        names = group.names or [ONLY] * len(group.ids)
        return state.correct_rows(group.rows, names, group.columns, group.messages.finished)


def letters_of(records: Sequence[Source], bad: Bad) -> list[Output]:
    """Dead letters of unreadable records."""
    return [dead_letter_of(records[i], error) for i, error in bad]


def write_group(
    group: ReadPredictions,
    rows: Any,
    sets: Sequence[list[Any]] | None,
    switch: CorrectionSwitch,
    records: Sequence[Source],
    outputs: list[Output | None],
    headers: list[Header],
    corrections: Corrections,
) -> None:
    """Write the output of each prediction of a group, from the corrected rows and their sets."""
    dropped = group.messages.predictions.dropped
    values = group.write(rows, None, sets)
    names = group.names or [ONLY] * len(values)
    for i, value, (model, _) in zip(group.places, values, names, strict=True):
        on = switch.is_on(model)
        outputs[i] = output_of(
            records[i], value, headers if on else [*headers, OFF_HEADER], dropped
        )
        corrections.corrected += on
    lonely = zip(group.places, group.ids, strict=True)
    corrections.without_id += [records[i] for i, id in lonely if id is None]
    corrections.faults += [(records[i], fault) for i, fault in group.faults]
    corrections.normalised += group.off


def output_of(record: Source, value: bytes | None, headers: list[Header], dropped: Any) -> Output:
    """Build the output of a record."""
    if record.headers:
        own_headers = headers_of(record)
        if dropped:
            own_headers = [header for header in own_headers if header[0] not in dropped]
        headers = own_headers + headers
    return Output(record.key, value, headers, record.timestamp, record)


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
