"""Joining: each label finds the predictions that it belongs to, or waits for them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, Literal

from stream_can.errors import UnknownClass
from stream_can.learner.kinds import Given, Id, Kind, News, for_one_row
from stream_can.learner.lane import ONLY, Call, Lane, Name, Taught
from stream_can.learner.lanes import is_of
from stream_can.learner.late import CheckedLabel, Held, HeldLabels, LateLabel, LoneLabels
from stream_can.learner.memory import LearnerMemory
from stream_can.learner.recent import Recent, check_ids, check_times

__all__ = ["LabelJoining", "Outcome"]

Outcome = Literal["learned", "repeated", "held", "unknown"]


class LabelJoining:
    """Labels and their predictions.

    Parameters
    ----------
    memory
        The recent predictions.
    label_wait
        As for `Learner`.
    """

    def __init__(self, memory: LearnerMemory, label_wait: float) -> None:
        self.memory, self.lanes, self.wait = memory, memory.lanes, label_wait
        self.held = HeldLabels()
        self.lone = LoneLabels()
        self.clock, self.until = -math.inf, math.inf
        """The latest time of a prediction, and its upper bound."""
        self.changed = 0
        """Number of labels that contradicted an earlier one of their prediction."""

    # ---- checking

    def check(self, labels: Sequence[LateLabel], n: int, indexed: bool) -> list[CheckedLabel]:
        """Check the labels of a call of n rows; ``indexed`` as for :meth:`Learner.play`."""
        checked, due = list[CheckedLabel](), 0
        check_ids(late.id for late in labels)
        check_times(late.time for late in labels)
        for late in labels:
            like = self._kind_of(late, n) if self.lanes.mixed else self.lanes.default
            y = late.label
            if not indexed:
                y = like.label(y, late.id)
            elif not 0 <= y < len(like.classes):
                raise UnknownClass(f"label of {late.id!r}: no class {y!r}")
            if not due <= late.due <= n or (late.of is not None and not 0 <= late.of < late.due):
                raise ValueError(
                    f"label of {late.id!r}: due before row {late.due}, expected {due} to {n},"
                    " and after its own row"
                )
            row = given = None
            if late.row is not None:
                rows = like.rows(1, like.row(late.row), for_one_row(late.segments))
                row, given = like.raw(rows, 0), like.given(rows, 0)
            due = late.due
            checked.append(CheckedLabel(late, y, row, given, like.held(y)))
        return checked

    def _kind_of(self, late: LateLabel, n: int) -> Kind:
        """The adapter for a label in a call of n rows, where models have different classes: among
        the models it can belong to, one that has its class."""
        name = (late.model, late.version)
        lanes = self.lanes.matching(name)
        kinds = [lane.kind for lane in lanes if late.id in lane.recent]
        if n or not kinds:  # rows of the call may have other classes
            kinds += [self.lanes.kind_of(name), *[lane.kind for lane in lanes]]
            kinds += [kind for of, kind in self.lanes.starts.items() if is_of(of, name)]
        if late.row is not None and name in self.lanes.by_name:
            kinds = [self.lanes.by_name[name].kind]
        for kind in kinds:
            with contextlib.suppress(UnknownClass):
                kind.label(late.label, late.id)
                return kind
        return kinds[0]

    def _y(self, label: CheckedLabel, lane: Lane) -> Any:
        """A label in the lane's terms; None where the lane lacks the class."""
        if not self.lanes.mixed:
            return label.y
        try:
            return lane.kind.label(label.told, label.late.id)
        except UnknownClass:
            return None

    # ---- a label arrives

    def join(self, label: CheckedLabel, k: int, rows: list[Recent], call: Call) -> Outcome:
        """Process the k-th label of a call; ``rows`` are the rows of the call before it."""
        late, row = label.late, label.row
        id, name = late.id, (late.model, late.version)
        if late.of is not None:
            return self._join_own(label, rows[late.of], k, call)
        kept = [
            (lane, entry)
            for lane in self.lanes.matching(name)
            if (entry := lane.recent.get(id)) is not None
        ]
        if kept:
            taught = False
            for lane, entry in kept:
                if (y := self._y(label, lane)) is None:
                    continue
                brings = row is not None and row != lane.raw_of(entry, call)
                taught |= self.teach(
                    lane, entry, y, call, k, row if brings else None, label.given, late.time
                )
            return "learned" if taught else "repeated"
        if row is not None:
            self._learn(name, label.y, call, row, label.given)
            return "learned"
        return self._without_prediction(label, call)

    def join_kept(
        self, labels: Sequence[CheckedLabel], entries: Sequence[Recent], lane: Lane, call: Call
    ) -> list[Outcome]:
        """Process labels of kept predictions of the only model, see :meth:`join`, when all rows of
        the call are kept already: each is learned before the row at which it is due."""
        outcomes = list[Outcome]()
        for k, (label, entry) in enumerate(zip(labels, entries, strict=True)):
            late, row = label.late, label.row
            if row is not None and (late.of is not None or row == lane.raw_of(entry, call)):
                row = None
            taught = self.teach(
                lane, entry, label.y, call, k, row, label.given, late.time, due=late.due
            )
            outcomes.append("learned" if taught else "repeated")
        return outcomes

    def _join_own(self, label: CheckedLabel, entry: Recent, k: int, call: Call) -> Outcome:
        """Process a label that came with its row."""
        lane = self.lanes.by_serial.get(entry.lane)  # None: dropped meanwhile
        if lane is None or (y := self._y(label, lane)) is None:
            return "repeated"
        taught = self.teach(lane, entry, y, call, k, time=label.late.time)
        return "learned" if taught else "repeated"

    def _without_prediction(self, label: CheckedLabel, call: Call) -> Outcome:
        """Process a label whose prediction is not kept."""
        late, told = label.late, label.told
        id, name = late.id, (late.model, late.version)
        named = name if name != ONLY else None
        if id is not None:
            if self.lone.get(id, named) is not None:
                y, _, differs = self._change_of_lone(id, named, told)
                if y is None:
                    self.changed += differs
                    return "repeated"
            if (held := self.held.get(id, named)) is not None:
                return self._hold_more(held, told)
        if self.wait > 0 and late.time is not None and id is not None:
            self.held.add(Held(float(late.time), id, told, named))
            while (excess := self.held.take_excess()) is not None:
                self._let_go(excess, call)
            return "held"
        self._learn_alone(id, named, told, call)
        return "unknown"

    def _hold_more(self, held: Held, told: Any) -> Outcome:
        """Add a label to a held one of its id: of several labels it may have more."""
        like = self.lanes.default
        try:
            before, now = like.label(held.label, held.id), like.label(told, held.id)
            new, known, differs = like.news(before, now)
        except UnknownClass:  # of a model with other classes
            return "repeated"
        self.changed += differs
        if new is None:
            return "repeated"
        self.held.add_to(held, like.held(known))
        return "held"

    # ---- a prediction arrives

    def advance(self, time: float, call: Call | None) -> None:
        """Advance the clock to a prediction's time; with a call, release labels that have waited
        long enough."""
        self.clock = max(self.clock, min(time, self.until))
        if call is not None:
            while (late := self.held.take_due(self.clock - self.wait)) is not None:
                self._let_go(late, call)

    def take_held(self, id: Id | None, lane: Lane, entry: Recent, call: Call) -> None:
        """Teach the label that was held for a prediction, if there is one."""
        if id is not None and (late := self.held.take(id, lane.name)) is not None:
            with contextlib.suppress(UnknownClass):  # of another model
                y = lane.kind.label(late.label, id)
                self.teach(lane, entry, y, call, time=late.time, n=late.n)

    # ---- learning

    def teach(
        self,
        lane: Lane,
        entry: Recent,
        y: Any,
        call: Call,
        k: int = -1,
        row: bytes | None = None,
        given: Given | None = None,
        time: float | None = None,
        n: int = 1,
        due: int | None = None,
    ) -> bool:
        """Learn the label of a kept prediction, ``due`` as for :meth:`Lane.learn`; return False
        where it is not new."""
        new, known, differs = lane.kind.news(entry.known, y)
        self.changed += differs
        if new is None:
            return False
        if lane.tells and entry.at >= 0:
            lane.run(call)
        call.active[lane] = None
        entry.known = known
        call.taught.append(Taught(k, lane.name, entry, time, n))
        lane.learn(new, entry, row, given, due)
        return True

    def _learn(
        self,
        name: Name,
        y: Any,
        call: Call,
        row: bytes | None = None,
        given: Given | None = None,
    ) -> None:
        """Learn a label without a kept prediction."""
        lane = self.memory.lane_of(name, call)
        call.active[lane] = None
        lane.learn(y, None, row, given)

    def _let_go(self, held: Held, call: Call) -> None:
        """Release a label whose prediction did not arrive."""
        self._learn_alone(held.id, held.lane, held.label, call)

    def _learn_alone(self, id: Id | None, named: Name | None, told: Any, call: Call) -> None:
        """Learn a label without its prediction: a single corrector learns the class mix."""
        y, known, differs = self._change_of_lone(id, named, told)
        self.changed += differs
        if id is not None and known is not None:  # of several labels some may be unknown
            self.lone.put(id, named, known)
        if y is not None and named is None and self.lanes.by_name.keys() <= {ONLY}:
            self._learn(ONLY, y, call)

    def _change_of_lone(self, id: Id | None, named: Name | None, told: Any) -> News:
        """Compare a label without a prediction to an earlier one of its id: what is new, as a
        snapshot stores it, and whether they differ."""
        before, like = None if id is None else self.lone.get(id, named), self.lanes.default
        try:
            known = None if before is None else like.label(before, id)
            new, known, differs = like.news(known, like.label(told, id))
        except UnknownClass:  # of a model with other classes
            return None, told if before is None else before, before not in (None, told)
        return new, before if known is None else like.held(known), differs
