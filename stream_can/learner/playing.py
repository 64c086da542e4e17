"""Playing: the rows of a call and the labels between them, in stream order."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction
from stream_can.learner.call import Call, CallRows, Corrected
from stream_can.learner.events import portable
from stream_can.learner.joining import LabelJoining
from stream_can.learner.kinds import Id, Outcome, for_one_row
from stream_can.learner.late import CheckedLabel, LateLabel
from stream_can.learner.memory import LearnerMemory
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_version import ModelVersion
from stream_can.learner.recent import Recent, begin, check_ids, check_times, predictions_of

Array = NDArray[np.float64]


class Playing:
    """Correct rows and learn labels between them.

    Parameters
    ----------
    memory
        The recent predictions.
    joining
        Their labels.
    """

    def __init__(self, memory: LearnerMemory, joining: LabelJoining) -> None:
        self.memory, self.versions, self.joining = memory, memory.versions, joining

    def play(
        self,
        ids: list[Id | None],
        P: Any,
        labels: Sequence[LateLabel] = (),
        segments: Mapping[str, Sequence[Any]] | None = None,
        names: Sequence[Name] | Name | None = ONLY,
        times: Sequence[float | None] | None = None,
        *,
        blobs: NDArray[np.float32] | None = None,
        indexed: bool = False,
        explain: Any = None,
    ) -> Corrected:
        """Play a call, see :meth:`Learner.play`; ``names`` is of all rows or of each, ``blobs`` the
        results of another corrector for the rows."""
        n = len(ids)
        check_ids(ids)
        check_times(() if times is None else times)
        name: Name = names if isinstance(names, tuple) else ONLY
        each = None if names is None or isinstance(names, tuple) else names
        for parameter, per_row in (("times", times), ("lanes", each)):
            if per_row is not None and len(per_row) != n:
                raise ValueError(f"{len(per_row)} {parameter} for {n} rows")
        if n == 1 and isinstance(P, list | np.ndarray) and len(P) == 1 and not labels:
            version = self._version_of_one(each[0] if each else name, segments)
            plain = type(P[0]) in (list, tuple, np.ndarray)  # others may have names, or masks
            plain = plain and blobs is None and not explain
            if version is not None and plain and not version.kind.makes_sets:
                time = None if times is None else times[0]
                with contextlib.suppress(InvalidPrediction):  # which is described below
                    sent = self._process_one(version, ids[0], P[0], time)
                    return Corrected(sent[None], None, [None], [], [])
        like = self.versions.kind_of(name)
        if not like.has_models:
            used_names = (name, *(each or ()), *((late.model, late.version) for late in labels))
            if any(used_name != ONLY for used_name in used_names):
                raise ValueError(f"model, version: not of {like.described}")
        if each is not None and self.versions.mixed:
            kinds = [self.versions.kind_of(row_name) for row_name in dict.fromkeys(each)]
            like = kinds[0] if kinds else like
            if any(kind.classes != like.classes for kind in kinds):
                raise ValueError("lanes: models of different classes in one call")
        rows = like.rows(n, P, segments)
        if blobs is not None:
            rows = like.mark_corrected(rows, blobs)
        checked = self.joining.check(labels, n, indexed)
        sets: list[list[Any]] | None = [[]] * n if like.makes_sets else None
        call = Call(n, rows, like.blank(n), sets, [None] * n, {}, [], explain, [])
        try:
            outcomes = self._process(call, CallRows(ids, name, each, times, []), checked)
        except BaseException:  # e.g. Ctrl-C: unfinished rows are not kept
            self.memory.abandon(call)
            raise
        return Corrected(call.sent, call.sets, call.reasons, outcomes, call.taught, call.explained)

    def process_one(
        self,
        id: Id | None,
        p: Any,
        segments: Mapping[str, Any] | None,
        name: Name,
        time: float | None,
    ) -> Any:
        """Correct a row and keep it: the same as :meth:`play` of it alone."""
        version = self._version_of_one(name, segments)
        if version is None:
            rows = self.versions.kind_of(name).row(p)
            return self.play([id], rows, (), for_one_row(segments), name, [time]).rows[0]
        check_ids((id,))
        check_times((time,))
        return self._process_one(version, id, p, time)

    def _version_of_one(self, name: Name, segments: object) -> ModelVersion | None:
        """The version of a row that can be corrected alone, without the effort of a call."""
        version = self.versions.by_name.get(name)
        if version is None or segments is not None or not version.kind.corrects_alone:
            return None
        return version if version.asks is None and not len(self.joining.held) else None

    def _process_one(self, version: ModelVersion, id: Id | None, p: Any, time: float | None) -> Any:
        """Correct a row and keep it; it alone is not checked yet."""
        sent, blob = version.kind.process_one(p)
        joining = self.joining
        try:
            if time is not None and time > joining.clock:
                joining.advance(time, None)
            joining.lone.count_early((id,), 0, 1)
            self.memory.keep_one(version, id, blob, math.nan if time is None else time)
        except BaseException:  # Ctrl-C: observed, but not kept
            self.memory.log = None
            raise
        return sent

    def label_one(self, late: LateLabel) -> Outcome:
        """Learn a label: the same as :meth:`play` of it alone, in less time where one model keeps
        its prediction."""
        versions = self.versions
        check_ids((late.id,))
        predictions = versions.keeping(late.id, (late.model, late.version))
        if len(predictions) != 1 or late.row is not None or versions.mixed:
            return self.play([], None, [late]).outcomes[0]
        ((version, entry),) = predictions
        check_times((late.time,))
        y = version.kind.label(late.label, late.id)
        late.require_weight(version.kind)
        label = CheckedLabel(late, y, None, None, version.kind.held(y))
        call = Call(0, None, None, None, [], {}, [], None, [])
        try:
            (outcome,) = self.joining.teach(version, [label], [entry], call)
            if (log := self.memory.log) is not None:
                log.labels.append(portable(label, versions, len(log.rows)))
            version.run(call)
        except BaseException:  # Ctrl-C
            self.memory.abandon(call)
            raise
        return outcome

    def _process(self, call: Call, rows: CallRows, labels: list[CheckedLabel]) -> list[Outcome]:
        """Process rows and labels of a call, in order."""
        outcomes = self._at_once(call, rows, labels)
        if outcomes is None:
            outcomes, at = [], 0
            for k, label in enumerate(labels):
                if (due := label.late.due) > at:
                    self._process_rows(at, due, call, rows)
                    at = due
                outcomes.append(self.joining.join(label, k, rows.entries, call))
            self._process_rows(at, call.n, call, rows)
        if (log := self.memory.log) is not None:
            log.labels.extend(portable(label, self.versions, len(log.rows)) for label in labels)
            log.rows.extend(rows.entries)
        for version in call.active:
            version.run(call)
        return outcomes

    def _at_once(
        self, call: Call, rows: CallRows, labels: list[CheckedLabel]
    ) -> list[Outcome] | None:
        """Keep all rows of a call and then join its labels, where that comes to the same as one
        after the other: of one model, each label finds its prediction, none waits, and nothing has
        to be dropped. None where it does not.
        """
        version = None if rows.names is not None else self.versions.by_name.get(rows.name)
        if version is None or len(self.versions.by_name) > 1 or call.n == 1 or not labels:
            return None
        if len(self.joining.held) or version.tells or self.versions.mixed:
            return None
        new_predictions = self._begin(0, call.n, version, call, rows)
        if self.memory.size + new_predictions[2] > self.memory.bound:
            return None
        entries = predictions_of(labels, new_predictions[0], version.recent, version.name)
        if entries is None:
            return None
        if call.n:
            self._keep(0, call.n, version, call, rows, new_predictions)
        return self.joining.teach(version, labels, entries, call, at_once=True)

    def _process_rows(self, first: int, last: int, call: Call, rows: CallRows) -> None:
        """Process rows of a call, one run of the same model and version at a time; row by row while
        labels are held, as one may be its own."""
        name, names, times = rows.name, rows.names, rows.times
        while first < last:
            time = None if times is None else times[first]
            if time is not None and not math.isnan(time):
                self.joining.advance(time, call)
            held = len(self.joining.held) > 0  # none are added in here
            end = first + 1 if held else last
            if names is not None:
                name = names[first]
                end = next((k for k in range(first + 1, end) if names[k] != name), end)
            version = self.memory.version_of(name, call)
            self._keep(
                first, end, version, call, rows, self._begin(first, end, version, call, rows)
            )
            if held:
                self.joining.take_held(rows.ids[first], version, rows.entries[-1], call)
            first = end

    def _begin(
        self, first: int, last: int, version: ModelVersion, call: Call, rows: CallRows
    ) -> tuple[list[Recent], list[Recent], int, float]:
        """Predictions of rows of one model and version, see `begin`."""
        kind, numbers = version.kind, range(first, last)
        new_predictions: tuple[list[Recent], list[Recent], int, float] = begin(
            rows.ids, first, last, self.memory.number, version.collected, version.serial,
            kind.width or [kind.width_of(call.rows, i) for i in numbers],
            [kind.given(call.rows, i) for i in numbers] if kind.segments else None, rows.times,
        )  # fmt: skip
        return new_predictions

    def _keep(
        self,
        first: int,
        last: int,
        version: ModelVersion,
        call: Call,
        rows: CallRows,
        new_predictions: tuple[list[Recent], list[Recent], int, float],
    ) -> None:
        """Keep predictions of rows of one model and version."""
        call.active[version] = None
        entries, named, size, latest = new_predictions
        if latest > self.joining.clock:
            self.joining.advance(latest, None)
        self.memory.number += last - first
        self.joining.lone.count_early(rows.ids, first, last)
        rows.entries.extend(entries)
        version.predict(range(first, last), entries)
        self.memory.extend(named, size)
