"""Playing: the rows of a call and the labels between them, in stream order."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction
from stream_can.learner.events import portable
from stream_can.learner.joining import LabelJoining, Outcome
from stream_can.learner.kinds import Id, Reason, for_one_row
from stream_can.learner.lane import ONLY, Call, Lane, Name, Taught
from stream_can.learner.late import CheckedLabel, LateLabel
from stream_can.learner.memory import LearnerMemory
from stream_can.learner.recent import Recent, begin, check_ids, check_times, predictions_of

__all__ = ["Corrected", "Playing"]

Array = NDArray[np.float64]


class Corrected(NamedTuple):
    """Results of rows and labels."""

    rows: Array
    """Corrected rows, shape (n, m)."""
    sets: list[list[Any]] | None
    """Names of the classes in each row's prediction set, the likeliest first; of several labels
    those decided on, see `MultiLabelCorrector.decide`; None where the corrector makes none."""
    asked: list[Reason | None]
    """Why the label of each row is requested, "random" or "margin"; None where it is not."""
    outcomes: list[Outcome]
    """Outcome of each label, see :meth:`Learner.label`."""
    taught: list[Taught]
    """The predictions with which labels were learned, for statistics."""
    explained: Sequence[Any] = ()
    """What explains the rows, where asked for, see :meth:`Learner.play`."""


class CallRows(NamedTuple):
    """Rows of a call, before they are corrected."""

    ids: list[Id | None]
    name: Name
    """Model and version of all of them, where ``names`` is None."""
    names: Sequence[Name] | None
    """Model and version of each."""
    times: Sequence[float | None] | None
    begun: list[Recent]
    """Predictions of those that were processed."""


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
        self.memory, self.lanes, self.joining = memory, memory.lanes, joining

    def play(
        self,
        ids: list[Id | None],
        P: Any,
        labels: Sequence[LateLabel] = (),
        segments: Mapping[str, Sequence[Any]] | None = None,
        names: Sequence[Name] | Name | None = ONLY,
        times: Sequence[float | None] | None = None,
        *,
        made: NDArray[np.float32] | None = None,
        indexed: bool = False,
        explain: Any = None,
    ) -> Corrected:
        """Play a call, see :meth:`Learner.play`; ``names`` is of all rows or of each, ``made`` what
        another corrector made of the rows."""
        n = len(ids)
        check_ids(ids)
        check_times(() if times is None else times)
        name: Name = names if isinstance(names, tuple) else ONLY
        each = None if names is None or isinstance(names, tuple) else names
        for what, given in (("times", times), ("lanes", each)):
            if given is not None and len(given) != n:
                raise ValueError(f"{len(given)} {what} for {n} rows")
        if n == 1 and isinstance(P, list | np.ndarray) and len(P) == 1 and not labels:
            lane = self._lane_of_one(each[0] if each else name, segments)
            plain = type(P[0]) in (list, tuple, np.ndarray)  # others may have names, or masks
            plain = plain and made is None and not explain
            if lane is not None and plain and not lane.kind.makes_sets:
                time = None if times is None else times[0]
                with contextlib.suppress(InvalidPrediction):  # which is described below
                    sent = self._process_one(lane, ids[0], P[0], time)
                    return Corrected(sent[None], None, [None], [], [])
        like = self.lanes.kind_of(name)
        if not like.has_models:
            used = (name, *(each or ()), *((late.model, late.version) for late in labels))
            if any(one != ONLY for one in used):
                raise ValueError(f"model, version: not of {like.described}")
        if each is not None and self.lanes.mixed:
            kinds = [self.lanes.kind_of(one) for one in dict.fromkeys(each)]
            like = kinds[0] if kinds else like
            if any(kind.classes != like.classes for kind in kinds):
                raise ValueError("lanes: models of different classes in one call")
        rows = like.rows(n, P, segments)
        if made is not None:
            rows = like.made(rows, made)
        checked = self.joining.check(labels, n, indexed)
        sets: list[list[Any]] | None = [[]] * n if like.makes_sets else None
        call = Call(n, rows, like.blank(n), sets, [None] * n, {}, [], explain, [])
        try:
            outcomes = self._process(call, CallRows(ids, name, each, times, []), checked)
        except BaseException:  # e.g. Ctrl-C: unfinished rows are not kept
            self.memory.abandon(call)
            raise
        return Corrected(call.sent, call.sets, call.asked, outcomes, call.taught, call.explained)

    def process_one(
        self,
        id: Id | None,
        p: Any,
        segments: Mapping[str, Any] | None,
        name: Name,
        time: float | None,
    ) -> Any:
        """Correct a row and keep it: the same as :meth:`play` of it alone."""
        lane = self._lane_of_one(name, segments)
        if lane is None:
            rows = self.lanes.kind_of(name).row(p)
            return self.play([id], rows, (), for_one_row(segments), name, [time]).rows[0]
        check_ids((id,))
        check_times((time,))
        return self._process_one(lane, id, p, time)

    def _lane_of_one(self, name: Name, segments: object) -> Lane | None:
        """The lane of a row that can be corrected without a call's effort: nothing but the row is
        to be done."""
        lane = self.lanes.by_name.get(name)
        if lane is None or segments is not None or not lane.kind.corrects_alone:
            return None
        return lane if lane.asks is None and not len(self.joining.held) else None

    def _process_one(self, lane: Lane, id: Id | None, p: Any, time: float | None) -> Any:
        """Correct a row and keep it; it alone is not checked yet."""
        sent, blob = lane.kind.process_one(p)
        joining = self.joining
        try:
            if time is not None and time > joining.clock:
                joining.advance(time, None)
            joining.lone.count_early((id,), 0, 1)
            self.memory.keep_one(lane, id, blob, math.nan if time is None else time)
        except BaseException:  # Ctrl-C: observed, but not kept
            self.memory.log = None
            raise
        return sent

    def label_one(self, late: LateLabel) -> Outcome:
        """Learn a label: the same as :meth:`play` of it alone, in less time where one model keeps
        its prediction."""
        lanes = self.lanes
        check_ids((late.id,))
        kept = lanes.keeping(late.id, (late.model, late.version))
        if len(kept) != 1 or late.row is not None or lanes.mixed:
            return self.play([], None, [late]).outcomes[0]
        ((lane, entry),) = kept
        check_times((late.time,))
        y = lane.kind.label(late.label, late.id)
        label = CheckedLabel(late, y, None, None, lane.kind.held(y))
        call = Call(0, None, None, None, [], {}, [], None, [])
        try:
            (outcome,) = self.joining.teach(lane, [label], [entry], call)
            if (log := self.memory.log) is not None:
                log.labels.append(portable(label, lanes, len(log.rows)))
            lane.run(call)
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
                outcomes.append(self.joining.join(label, k, rows.begun, call))
            self._process_rows(at, call.n, call, rows)
        if (log := self.memory.log) is not None:
            log.labels.extend(portable(label, self.lanes, len(log.rows)) for label in labels)
            log.rows.extend(rows.begun)
        for lane in call.active:
            lane.run(call)
        return outcomes

    def _at_once(
        self, call: Call, rows: CallRows, labels: list[CheckedLabel]
    ) -> list[Outcome] | None:
        """Keep all rows of a call and then join its labels, where that comes to the same as one
        after the other: of one model, each label finds its prediction, none waits, and nothing has
        to be dropped. None where it does not.
        """
        lane = None if rows.names is not None else self.lanes.by_name.get(rows.name)
        if lane is None or len(self.lanes.by_name) > 1 or call.n == 1 or not labels:
            return None
        if len(self.joining.held) or lane.tells or self.lanes.mixed:
            return None
        begun = self._begin(0, call.n, lane, call, rows)
        if self.memory.size + begun[2] > self.memory.bound:
            return None
        entries = predictions_of(labels, begun[0], lane.recent, lane.name)
        if entries is None:
            return None
        if call.n:
            self._keep(0, call.n, lane, call, rows, begun)
        return self.joining.teach(lane, labels, entries, call, at_once=True)

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
            lane = self.memory.lane_of(name, call)
            self._keep(first, end, lane, call, rows, self._begin(first, end, lane, call, rows))
            if held:
                self.joining.take_held(rows.ids[first], lane, rows.begun[-1], call)
            first = end

    def _begin(
        self, first: int, last: int, lane: Lane, call: Call, rows: CallRows
    ) -> tuple[list[Recent], list[Recent], int, float]:
        """Predictions of rows of one model and version, see `begin`."""
        kind, numbers = lane.kind, range(first, last)
        begun: tuple[list[Recent], list[Recent], int, float] = begin(
            rows.ids, first, last, self.memory.number, lane.collected, lane.serial,
            kind.width or [kind.width_of(call.rows, i) for i in numbers],
            [kind.given(call.rows, i) for i in numbers] if kind.segments else None, rows.times,
        )  # fmt: skip
        return begun

    def _keep(
        self,
        first: int,
        last: int,
        lane: Lane,
        call: Call,
        rows: CallRows,
        begun: tuple[list[Recent], list[Recent], int, float],
    ) -> None:
        """Keep predictions of rows of one model and version."""
        call.active[lane] = None
        entries, named, size, latest = begun
        if latest > self.joining.clock:
            self.joining.advance(latest, None)
        self.memory.number += last - first
        self.joining.lone.count_early(rows.ids, first, last)
        rows.begun.extend(entries)
        lane.predict(range(first, last), entries)
        self.memory.add(named, size)
