"""Joining: each label finds the predictions that it belongs to, or waits for them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from stream_can.errors import UnknownClass
from stream_can.learner.call import Call, Taught
from stream_can.learner.kinds import Given, Id, JoinedLabel, Kind, LabelChange, Outcome, for_one_row
from stream_can.learner.late import CheckedLabel, Held, HeldLabels, LateLabel, LoneLabels
from stream_can.learner.memory import LearnerMemory
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_version import ModelVersion
from stream_can.learner.model_versions import is_of
from stream_can.learner.recent import Recent, check_ids, check_times, teach


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
        self.memory, self.versions, self.wait = memory, memory.versions, label_wait
        self.held = HeldLabels()
        self.lone = LoneLabels()
        self.clock, self.until = -math.inf, math.inf
        """The latest time of a prediction, and its upper bound."""
        self.changed = 0
        """Number of labels that contradicted an earlier one of their prediction."""

    # ---- checking

    def check(self, labels: Sequence[LateLabel], n: int, indexed: bool) -> list[CheckedLabel]:
        """Check the labels of a call of n rows; ``indexed`` as for :meth:`Learner.play`."""
        checked, previous_due = list[CheckedLabel](), 0
        like, mixed = self.versions.default, self.versions.mixed
        check_ids([late.id for late in labels])
        check_times([late.time for late in labels])
        m = len(like.classes)
        for late in labels:
            y, due, of = late.label, late.due, late.of
            if mixed:
                like = self._kind_of(late, n)
            if not indexed:
                y = like.label(y, late.id)
            elif not 0 <= y < m:
                raise UnknownClass(f"label of {late.id!r}: no class {y!r}")
            if not previous_due <= due <= n or (of is not None and not 0 <= of < due):
                raise ValueError(
                    f"label of {late.id!r}: due before row {due}, expected {previous_due} to {n},"
                    " and after its own row"
                )
            row = segments = None
            if late.row is not None:
                rows = like.rows(1, like.row(late.row), for_one_row(late.segments))
                row, segments = like.raw(rows, 0), like.given(rows, 0)
            late.require_weight(like)
            previous_due = due
            checked.append(CheckedLabel(late, y, row, segments, like.held(y)))
        return checked

    def _kind_of(self, late: LateLabel, n: int) -> Kind:
        """The adapter for a label in a call of n rows, where models have different classes: among
        the models it can belong to, one that has its class."""
        name = (late.model, late.version)
        versions = self.versions.matching(name)
        kinds = [version.kind for version, _ in self.versions.keeping(late.id, name)]
        if n or not kinds:  # rows of the call may have other classes
            kinds += [self.versions.kind_of(name), *[version.kind for version in versions]]
            kinds += [kind for of, kind in self.versions.starts.items() if is_of(of, name)]
        if late.row is not None and name in self.versions.by_name:
            kinds = [self.versions.by_name[name].kind]
        for kind in kinds:
            with contextlib.suppress(UnknownClass):
                kind.label(late.label, late.id)
                return kind
        return kinds[0]

    # ---- a label arrives

    def join(self, label: CheckedLabel, k: int, rows: list[Recent], call: Call) -> Outcome:
        """Process the k-th label of a call; ``rows`` are the rows of the call before it."""
        late, row = label.late, label.row
        id, name = late.id, (late.model, late.version)
        if late.of is not None:
            entry = rows[late.of]
            return self._join_one(label, self.versions.by_serial.get(entry.lane), entry, k, call)
        if predictions := self.versions.keeping(id, name):
            taught = False
            for version, entry in predictions:
                taught |= self._join_one(label, version, entry, k, call) == "learned"
            return "learned" if taught else "repeated"
        if row is not None:
            self._learn(name, label.y, call, row, label.given, late.weight)
            return "learned"
        return self._without_prediction(label, call)

    def _join_one(
        self, label: CheckedLabel, version: ModelVersion | None, entry: Recent, k: int, call: Call
    ) -> Outcome:
        """Process a label of a kept prediction; its version may have been dropped meanwhile."""
        if version is None:
            return "repeated"
        if self.versions.mixed:
            try:
                y = version.kind.label(label.stored, label.late.id)
            except UnknownClass:  # of another model
                return "repeated"
            label = msgspec.structs.replace(label, y=y)
        return self.teach(version, [label], [entry], call, k)[0]

    def _without_prediction(self, label: CheckedLabel, call: Call) -> Outcome:
        """Process a label whose prediction is not kept."""
        late, stored = label.late, label.stored
        id, name = late.id, (late.model, late.version)
        named = name if name != ONLY else None
        if id is not None:
            if self.lone.get(id, named) is not None:
                y, _, differs = self._change_of_lone(id, named, stored)
                if y is None:
                    self.changed += differs
                    return "repeated"
            if (held := self.held.get(id, named)) is not None:
                return self._hold_more(held, stored)
        if self.wait > 0 and late.time is not None and id is not None:
            self.held.hold(Held(float(late.time), id, stored, named, weight=late.weight))
            while (excess := self.held.take_excess()) is not None:
                self._let_go(excess, call)
            return "held"
        self._learn_alone(id, named, stored, call, late.weight)
        return "unknown"

    def _hold_more(self, held: Held, stored: Any) -> Outcome:
        """Add a label to a held one of its id: of multilabel rows it may have more."""
        like = self.versions.default
        try:
            earlier, later = like.label(held.label, held.id), like.label(stored, held.id)
            new, known, differs = like.news(earlier, later)
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
        self.clock = max(self.clock, min(float(time), self.until))  # numpy's is not saved
        if call is not None:
            while (late := self.held.take_due(self.clock - self.wait)) is not None:
                self._let_go(late, call)

    def take_held(self, id: Id | None, version: ModelVersion, entry: Recent, call: Call) -> None:
        """Teach the label that was held for a prediction, if there is one."""
        if id is not None and (late := self.held.take(id, version.name)) is not None:
            with contextlib.suppress(UnknownClass):  # of another model
                y = version.kind.label(late.label, id)
                label = CheckedLabel(
                    LateLabel(id, late.label, time=late.time, weight=late.weight),
                    y, None, None, late.label,
                )  # fmt: skip
                self.teach(version, [label], [entry], call, -1, late.n)

    # ---- learning

    def teach(
        self,
        version: ModelVersion,
        labels: list[CheckedLabel],
        entries: list[Recent],
        call: Call,
        k: int = 0,
        n: int = 1,
        *,
        at_once: bool = False,
    ) -> list[Outcome]:
        """Learn labels of kept predictions, where they are new.

        Parameters
        ----------
        version, entries
            Their version, and the prediction of each.
        k
            Index of the first within the call; -1 for a held label, of ``n``.
        at_once
            Whether all rows of the call are kept already: then each label is learned before the
            row at which it is due.
        """
        call.active[version] = None
        outcomes, changed = teach(
            labels, entries, version, call, JoinedLabel, Taught, k, n, at_once
        )
        self.changed += changed
        return outcomes

    def _learn(
        self,
        name: Name,
        y: Any,
        call: Call,
        row: bytes | None = None,
        segments: Given | None = None,
        weight: float | None = None,
    ) -> None:
        """Learn a label without a kept prediction."""
        version = self.memory.version_of(name, call)
        call.active[version] = None
        version.learn(y, row, segments, weight)

    def _let_go(self, held: Held, call: Call) -> None:
        """Release a label whose prediction did not arrive."""
        self._learn_alone(held.id, held.name, held.label, call, held.weight)

    def _learn_alone(
        self, id: Id | None, named: Name | None, stored: Any, call: Call, weight: float | None
    ) -> None:
        """Learn a label without its prediction: a single corrector learns the class mix."""
        y, known, differs = self._change_of_lone(id, named, stored)
        self.changed += differs
        if id is not None and known is not None:  # of multilabel rows some may be unknown
            self.lone.put(id, named, known)
        if y is not None and named is None and self.versions.by_name.keys() <= {ONLY}:
            self._learn(ONLY, y, call, weight=weight)

    def _change_of_lone(self, id: Id | None, named: Name | None, stored: Any) -> LabelChange:
        """Compare a label without a prediction to an earlier one of its id: what is new, as a
        snapshot stores it, and whether they differ."""
        earlier, like = None if id is None else self.lone.get(id, named), self.versions.default
        try:
            known = None if earlier is None else like.label(earlier, id)
            new, known, differs = like.news(known, like.label(stored, id))
        except UnknownClass:  # of a model with other classes
            return None, stored if earlier is None else earlier, earlier not in (None, stored)
        return new, earlier if known is None else like.held(known), differs
