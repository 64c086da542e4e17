"""Learner: a corrector with memory. Predictions are kept under their ids until labels arrive."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import UnknownClass
from stream_can.learner import saved
from stream_can.learner.kinds import Given, Id, Kind, News, Reason
from stream_can.learner.lane import (
    ONLY,
    Call,
    Lane,
    Name,
    Taught,
    most_bytes,
    predecessor,
)
from stream_can.learner.late import Held, HeldLabels, LateLabel, LoneLabels
from stream_can.learner.recent import (
    Recent,
    begin,
    check_ids,
    check_times,
    forget,
    forget_oldest,
    keep,
    mark,
    marks,
    recalled,
)
from stream_can.learner.saved import State
from stream_can.learner.sent import Events, SentBatch, SentLane, columns_of, read_sent
from stream_can.method.asking import LabelRequests
from stream_can.row_kinds import AnyCorrector, kind_of
from stream_can.trust.alarm import Alarm, Episode
from stream_can.trust.locking import Locked, one_at_a_time

__all__ = ["Corrected", "Learner", "Live", "Outcome"]

Array = NDArray[np.float64]
Outcome = Literal["learned", "repeated", "held", "unknown"]

MOST_MB = 2**40
"""An upper bound no machine reaches."""
MOST_ALARMS = 20
"""Maximum number of models and versions with an alarm each; those with most labels."""
MOST_PENDING = 64 << 10
"""Maximum bytes of unscored predictions that a state stores for all models together: with many
models or classes it would otherwise be larger than a topic accepts."""


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


class Live(NamedTuple):
    """The corrector of a model and version."""

    corrector: Any
    """The learner's own object; do not change it."""
    after: str | None
    """Version of the same model from which it was started."""


def adapter_of(corrector: AnyCorrector) -> Kind:
    """Wrap a corrector in its adapter."""
    found: Kind = kind_of(corrector).adapter(corrector)
    return found


class Learner(Locked):
    """A corrector with memory: it keeps rows and receipts until their labels arrive.

    Predictions are passed with an id; a label with the same id finds its prediction, however late,
    and the row that was sent is judged. The first label of an id counts. All results equal, to the
    bit, those of the bare `Corrector` given the same rows, receipts and labels.

    Each model and version has its own corrector. A new version starts as the
    :meth:`Corrector.successor` of the version of its model with the most recent labels; a label
    without a model teaches every model that has predicted its id. An object may be shared by
    threads.

    Parameters
    ----------
    corrector
        The corrector, a `Corrector`, `MultiLabelCorrector` or `SparseCorrector`, new or trained;
        the learner takes ownership. Where models are named, each starts as a copy of it. With a
        `SparseCorrector` a row is {class: probability}, the result is a `SparseRow`, and models and
        columns are not supported.
    recent_mb
        Memory for the latest predictions with an id, in MiB, ids included: 16 m bytes each, 4 for
        each number of a receipt, the id, its columns, and 480; the oldest are dropped. 0 keeps
        none.
    ask
        Request the labels of about this share of the predictions, see `LabelRequests`. Labels that
        were requested because of their row then teach no sets and are not scored.
    label_wait
        How many seconds a label waits for its prediction if it arrives first, measured by the times
        of later predictions; then it teaches the class mix alone. 0: it does not wait.
    max_lanes
        Maximum number of models and versions: when another begins, the one with the oldest last
        prediction is dropped together with its predictions; if it returns, it starts over. Their
        correctors take as many MiB at most, or 256 MiB: where they are larger, fewer are kept.
    scores
        Whether to score labelled predictions and to watch for a worse classifier.

    Raises
    ------
    ValueError
        An argument is out of range.

    Examples
    --------
    >>> from stream_can import Corrector, Learner
    >>> learner = Learner(Corrector(["fraud", "fine"]))
    >>> better = learner.correct("order-23", [0.45, 0.55])
    >>> learner.label("order-23", "fraud")
    'learned'
    >>> learner.label("order-23", "fine")
    'repeated'
    """

    _rank = 0

    def __init__(
        self,
        corrector: AnyCorrector,
        *,
        recent_mb: float = 64,
        ask: float | None = None,
        label_wait: float = 0,
        max_lanes: int = 1000,
        scores: bool = True,
    ) -> None:
        if not 0 <= recent_mb <= MOST_MB:
            raise ValueError(f"recent_mb: {recent_mb!r}, expected a number from 0 to {MOST_MB:,}")
        if not 0 <= label_wait < math.inf:
            raise ValueError(f"label_wait: {label_wait!r}, expected seconds, 0 or more")
        if max_lanes < 1:
            raise ValueError(f"max_lanes: {max_lanes!r}, expected 1 or more")
        kind = adapter_of(corrector)
        if ask is not None:
            LabelRequests(ask)  # refuses what is no share
        super().__init__()
        self._default = kind
        self._start: Kind | None = kind
        """Adapter of the initial corrector, until a model begins."""
        self._begin = corrector.to_bytes()
        self._starts: dict[Name, Kind] = {}
        """Initial adapters of models that were given their own."""
        self._mixed = False
        """Whether models have different classes."""
        self._ask, self._wait = ask, float(label_wait)
        self._mb, self._bound = float(recent_mb), int(recent_mb * (1 << 20))
        self._lanes: dict[Name, Lane] = {}
        self._models: dict[str | None, list[Lane]] = {}
        """Lanes of each model."""
        self._serials: dict[int, Lane] = {}
        """Lanes by serial number, by which predictions refer to them: numbers, because the garbage
        collector visits every reference repeatedly."""
        self._order: deque[Recent] = deque()
        """The latest predictions with an id, oldest first."""
        self._held = HeldLabels()
        self._lone = LoneLabels()
        self._events: _Events | None = None
        """Events since they were last taken, where they are recorded."""
        self._size = self._number = self._named = 0
        self._begun = -1
        """Serial number of the newest lane."""
        self._clock, self._until = -math.inf, math.inf
        self._changed = self._dropped = 0
        self._max_lanes, self._scores = int(max_lanes), scores

    @classmethod
    def of(cls, corrector: AnyCorrector, correctors: Mapping[Name, Any], **options: Any) -> Self:
        """Create a learner with correctors for these (model, version); others begin with
        ``corrector``, or as a successor within their model."""
        self = cls(corrector, **options)
        for name, one in correctors.items():
            self._add(Lane(name, adapter_of(one), self._ask))
            self._start = None
        return self

    @one_at_a_time
    def start(self, corrector: AnyCorrector, model: str | None, version: str | None = None) -> None:
        """Set the corrector with which a model and version begins, instead of the common one.

        It may have other classes. Rows and labels of models with different classes come in separate
        calls, and a new version starts as the successor of one with its classes. A model that has
        begun already is left unchanged.

        Parameters
        ----------
        corrector
            Of the same sort and with the same columns as the others; the learner takes ownership.
        model, version
            The model and version.

        Raises
        ------
        ValueError
            The corrector is of another kind, or has other columns.
        """
        name, kind, like = (model, version), adapter_of(corrector), self._like
        if type(kind) is not type(like) or kind.columns != like.columns:
            raise ValueError(
                f"corrector: {type(corrector).__name__} with columns {list(kind.columns)}, expected"
                f" {type(like.corrector).__name__} with {list(like.columns)}, as the others"
            )
        if name not in self._lanes:
            self._starts[name] = kind
            self._mixed = self._mixed or kind.classes != like.classes
            if self._events is not None:
                at = len(self._events.rows)
                self._events.starts.append((at, name, corrector.to_bytes()))

    # ---- predictions

    def correct(
        self,
        id: Id | None,
        p: ArrayLike,
        *,
        columns: Mapping[str, Any] | None = None,
        model: str | None = None,
        version: str | None = None,
        time: float | None = None,
    ) -> Array:
        """Correct a prediction, shape (m,), and keep it until its label arrives.

        Parameters
        ----------
        id
            The id that its label will name: text, integer or bytes, at most 1,024 bytes. The latest
            prediction of an id is the one that is labelled; one whose id is None is not kept.
        p
            Probabilities as for :meth:`Corrector.process_one`.
        columns
            {column: value} of the declared columns.
        model, version
            The model and version that predicted.
        time
            Time of the prediction in seconds since 1970, for ``label_wait`` and the alarm.

        Returns
        -------
        The corrected row, a new float64 array, shape (m,).

        Raises
        ------
        InvalidPrediction, ValueError, TypeError
            The row, the columns or the id are invalid; nothing has changed.
        """
        rows = self._kind_of((model, version)).row(p)
        row: Array = self._play(
            [id], rows, (), _one(columns), (model, version), [time]
        ).rows[0]  # fmt: skip
        return row

    def correct_many(
        self,
        ids: Iterable[Id | None],
        P: ArrayLike,
        *,
        columns: Mapping[str, Sequence[Any]] | None = None,
        model: str | None = None,
        version: str | None = None,
        times: Sequence[float | None] | None = None,
    ) -> Corrected:
        """:meth:`correct` for each id and row of ``P``, shape (n, m), in order; the same bits.

        All rows are checked before the first is processed. ``columns`` is {column: n values}.
        """
        return self._play(list(ids), P, (), columns, (model, version), times)

    # ---- labels

    def label(
        self,
        id: Id | None,
        label: Any,
        *,
        row: ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
        model: str | None = None,
        version: str | None = None,
        time: float | None = None,
    ) -> Outcome:
        """Learn the label of a prediction; the first label of an id counts.

        Parameters
        ----------
        id, label
            Id of the prediction, None where unknown, and name of the class.
        row, columns
            The classifier's own prediction and its columns, for an id that is no longer kept.
            Where they differ from what is kept, they are learned instead.
        model, version
            The model and version that predicted; without one of them, every model and version that
            has predicted the id.
        time
            Time of the label in seconds, for ``label_wait``.

        Returns
        -------
        "learned" with its prediction; "repeated": it teaches nothing; "held" until its prediction
        comes; "unknown": the prediction is not kept, and without models the label teaches the
        class mix alone. The latest 100,000 unknown ids are recognised when repeated.

        Raises
        ------
        UnknownClass, InvalidPrediction, ValueError, TypeError
            Nothing was learned.
        """
        given = None if columns is None else dict(columns)
        one = LateLabel(
            id, label, row=row, columns=given, model=model, version=version, time=time
        )  # fmt: skip
        return self._play([], None, [one], None, ONLY, None).outcomes[0]

    def label_many(
        self,
        ids: Iterable[Id | None],
        labels: Iterable[Any],
        *,
        model: str | None = None,
        version: str | None = None,
        times: Sequence[float | None] | None = None,
    ) -> list[Outcome]:
        """:meth:`label` for each id and label, in order; all are checked before the first is
        learned."""
        names, ys = list(ids), list(labels)
        whens = [None] * len(names) if times is None else times
        if not len(names) == len(ys) == len(whens):
            raise ValueError(f"{len(names)} ids, {len(ys)} labels, {len(whens)} times")
        those = [
            LateLabel(id, y, model=model, version=version, time=time)
            for id, y, time in zip(names, ys, whens, strict=True)
        ]
        return self._play([], None, those, None, ONLY, None).outcomes

    # ---- both

    def play(
        self,
        ids: Iterable[Id | None],
        P: ArrayLike | None,
        labels: Sequence[LateLabel] = (),
        *,
        columns: Mapping[str, Sequence[Any]] | None = None,
        lanes: Sequence[Name] | None = None,
        times: Sequence[float | None] | None = None,
        explain: Any = None,
    ) -> Corrected:
        """Correct rows and learn labels between them in one call: :meth:`correct` and :meth:`label`
        in stream order, with the same bits.

        Parameters
        ----------
        ids, P, columns, times
            As for :meth:`correct_many`; P may be None where there are no rows.
        labels
            In order of arrival; ``due`` of each says before which row.
        lanes
            (model, version) of each row.
        explain
            For replays: of a `Corrector`, whether to return the rows of each path, see
            :meth:`Corrector.play`; of a `SparseCorrector` a label for each row, or None, whose
            rank and probability in the row are wanted.

        Raises
        ------
        InvalidPrediction, UnknownClass, ValueError, TypeError
            As for those; nothing has changed.
        """
        return self._play(list(ids), P, labels, columns, lanes, times, explain=explain)

    @one_at_a_time
    def _play(
        self,
        ids: list[Id | None],
        P: Any,
        labels: Sequence[LateLabel],
        columns: Mapping[str, Sequence[Any]] | None,
        lanes: Sequence[Name] | Name | None,
        times: Sequence[float | None] | None,
        made: NDArray[np.float32] | None = None,
        explain: Any = None,
    ) -> Corrected:
        n = len(ids)
        check_ids(ids)
        check_times(() if times is None else times)
        name: Name = lanes if isinstance(lanes, tuple) else ONLY
        names = None if lanes is None or isinstance(lanes, tuple) else lanes
        for what, given in (("times", times), ("lanes", names)):
            if given is not None and len(given) != n:
                raise ValueError(f"{len(given)} {what} for {n} rows")
        like = self._kind_of(name)
        if not like.has_models:
            own = (name, *(names or ()), *((one.model, one.version) for one in labels))
            if any(one != ONLY for one in own):
                raise ValueError(f"model, version: not of {like.described}")
        if names is not None and self._mixed:
            kinds = [self._kind_of(one) for one in dict.fromkeys(names)]
            like = kinds[0] if kinds else like
            if any(one.classes != like.classes for one in kinds):
                raise ValueError("lanes: models of different classes in one call")
        rows = like.rows(n, P, columns)
        if made is not None:
            rows = like.made(rows, made)
        taken = self._labels(labels, n)
        sets: list[list[Any]] | None = [[]] * n if like.makes_sets else None
        call = Call(n, rows, like.blank(n), sets, [None] * n, {}, [], explain, [], [])
        try:
            outcomes = self._take(call, ids, names, name, times, taken)
        except BaseException:  # e.g. Ctrl-C: unfinished rows are not kept
            self._abandon([entry for lane in call.active for entry in lane.abandon()])
            raise
        return Corrected(call.sent, call.sets, call.asked, outcomes, call.taught, call.explained)

    def _take(
        self,
        call: Call,
        ids: list[Id | None],
        names: Sequence[Name] | None,
        name: Name,
        times: Sequence[float | None] | None,
        taken: list[_Taken],
    ) -> list[Outcome]:
        """Process rows and labels of a call, in order."""
        seen: list[Recent] = []
        outcomes: list[Outcome] = []
        n, at = len(ids), 0
        events = self._events
        first = 0 if events is None else len(events.rows)
        if taken and names is None and self._begin_all(call, ids, name, times, taken, seen):
            at = n
        for k, one in enumerate(taken):
            if (due := one.one.due) > at:
                self._predict_all(at, due, call, ids, names, name, times, seen)
                at = due
            outcomes.append(self._label(one, k, seen, call))
            if events is not None:
                events.labels.append(self._told(one, first))
        self._predict_all(at, n, call, ids, names, name, times, seen)
        if events is not None:
            events.rows.extend(seen)
        self._run(call)
        return outcomes

    def _begin_all(
        self,
        call: Call,
        ids: list[Id | None],
        name: Name,
        times: Sequence[float | None] | None,
        taken: list[_Taken],
        seen: list[Recent],
    ) -> bool:
        """Keep all rows of a call at once, before its labels, where that comes to the same as one
        after the other: each label finds its prediction, none waits, and nothing has to be dropped.
        """
        lane, n = self._lanes.get(name), len(ids)
        if lane is None or n < 2 or len(self._held) or lane.tells or self._mixed:
            return False
        places = {id: i for i, id in enumerate(ids) if id is not None}
        if len(places) + ids.count(None) != n:
            return False
        recent = lane.recent
        for one in taken:
            late = one.one
            own = places.get(late.id) if late.of is None else late.of
            if own is None:
                if late.id not in recent:
                    return False
            elif own >= late.due:
                return False
            if (late.model, late.version) not in (ONLY, name):
                return False
        begun = self._begun_rows(0, n, lane, call, ids, times)
        if self._size + begun[2] > self._bound:
            return False
        self._predict(0, n, lane, call, ids, times, seen, begun)
        call.dues.extend(one.one.due for one in taken)
        return True

    def _predict_all(
        self,
        first: int,
        last: int,
        call: Call,
        ids: list[Id | None],
        names: Sequence[Name] | None,
        name: Name,
        times: Sequence[float | None] | None,
        seen: list[Recent],
    ) -> None:
        """Process rows of a call, one run of the same model and version at a time; row by row while
        labels are held, as one may be its own."""
        while first < last:
            time = None if times is None else times[first]
            if time is not None and not math.isnan(time):
                self._now(time, call)
            held = len(self._held) > 0  # none are added in here
            end = first + 1 if held else last
            if names is not None:
                name = names[first]
                end = next((k for k in range(first + 1, end) if names[k] != name), end)
            lane = self._lane(name, call)
            self._predict(first, end, lane, call, ids, times, seen)
            id = ids[first]
            if held and id is not None and (late := self._held.take(id, lane.name)) is not None:
                with contextlib.suppress(UnknownClass):  # of another model
                    y = lane.kind.label(late.label, id)
                    self._teach(lane, seen[-1], y, call, time=late.time, n=late.n)
            first = end

    def _labels(self, labels: Sequence[LateLabel], n: int) -> list[_Taken]:
        """Check the labels of a call."""
        taken, due = list[_Taken](), 0
        check_ids(one.id for one in labels)
        check_times(one.time for one in labels)
        for one in labels:
            like = self._like if not self._mixed else self._kind_of_label(one, n)
            y = like.label(one.label, one.id)
            if not due <= one.due <= n or (one.of is not None and not 0 <= one.of < one.due):
                raise ValueError(
                    f"label of {one.id!r}: due before row {one.due}, expected {due} to {n},"
                    " and after its own row"
                )
            row = given = None
            if one.row is not None:
                rows = like.rows(1, like.row(one.row), _one(one.columns))
                row, given = like.raw(rows, 0), like.given(rows, 0)
            due = one.due
            taken.append(_Taken(one, y, row, given, like.held(y)))
        return taken

    def _kind_of(self, name: Name) -> Kind:
        """The adapter of a model and version."""
        lane = self._lanes.get(name)
        return lane.kind if lane is not None else self._starts.get(name, self._like)

    def _kind_of_label(self, one: LateLabel, n: int) -> Kind:
        """The adapter for a label in a call with n rows, where models have different classes: among
        the models it can belong to, one that has its class."""
        name = (one.model, one.version)
        lanes = self._lanes_for(name)
        kinds = [lane.kind for lane in lanes if one.id in lane.recent]
        if n or not kinds:  # rows of the call may have other classes
            kinds += [self._kind_of(name), *[lane.kind for lane in lanes]]
            kinds += [kind for of, kind in self._starts.items() if is_of(of, name)]
        if one.row is not None and name in self._lanes:
            kinds = [self._lanes[name].kind]
        for kind in kinds:
            with contextlib.suppress(UnknownClass):
                kind.label(one.label, one.id)
                return kind
        return kinds[0]

    def _y(self, taken: _Taken, lane: Lane) -> Any:
        """Return a label in the lane's terms; None where the lane lacks the class."""
        if not self._mixed:
            return taken.y
        try:
            return lane.kind.label(taken.told, taken.one.id)
        except UnknownClass:
            return None

    @property
    def _like(self) -> Kind:
        """The adapter for all rows and labels."""
        return self._default

    def _lane(self, name: Name, call: Call) -> Lane:
        """Return the lane of a model and version; start a new one from its predecessor."""
        found = self._lanes.get(name)
        if found is not None:
            return found
        self._run(call)
        own = self._starts.pop(name, None)
        classes = self._like.classes if own is None else own.classes
        others = self._models.get(name[0], ())
        before = predecessor(
            name, {one.name: one.kind.corrector for one in others if one.kind.classes == classes}
        )
        if before is not None:
            kind = self._lanes[before].kind.successor()
        elif own is not None:
            kind = own
        elif self._start is not None:
            kind, self._start = self._start, None
        else:
            kind = adapter_of(saved.corrector(self._begin))
        found = Lane(name, kind, self._ask, self._number, self._number, before and before[1])
        self._add(found)
        while len(self._lanes) > 1 and not self._fits():
            oldest = min(
                (one for one in self._lanes.values() if one is not found), key=lambda one: one.last
            )
            del self._lanes[oldest.name], self._serials[oldest.serial]
            self._models[oldest.name[0]].remove(oldest)
            if self._events is not None:
                self._events.dropped[oldest.serial] = oldest
            self._dropped += 1
            self._keep([one for one in self._order if one.lane != oldest.serial])
        return found

    def _fits(self) -> bool:
        """Whether so many models and versions may be kept."""
        size = sum(lane.kind.nbytes for lane in self._lanes.values())
        return len(self._lanes) <= self._max_lanes and size <= most_bytes(self._max_lanes)

    def _run(self, call: Call) -> None:
        for lane in call.active:
            lane.run(call)

    def _now(self, time: float, call: Call) -> None:
        """Advance the clock to a prediction's time; release labels that have waited long enough."""
        self._clock = max(self._clock, min(time, self._until))
        while (late := self._held.take_due(self._clock - self._wait)) is not None:
            self._let_go(late, call)

    def _predict(
        self,
        first: int,
        last: int,
        lane: Lane,
        call: Call,
        ids: list[Id | None],
        times: Sequence[float | None] | None,
        seen: list[Recent],
        begun: Any = None,
    ) -> None:
        """Keep rows of one model and version, and drop the oldest of all beyond the bound."""
        call.active[lane] = None
        entries, named, size, latest = begun or self._begun_rows(
            first, last, lane, call, ids, times
        )
        if latest > self._clock:
            self._clock = max(self._clock, min(latest, self._until))
        self._number += last - first
        self._lone.count_early(ids, first, last)
        seen += entries
        lane.predict(range(first, last), entries)
        self._order += named
        self._size += size
        if self._size > self._bound:
            self._forget()

    def _begun_rows(
        self,
        first: int,
        last: int,
        lane: Lane,
        call: Call,
        ids: list[Id | None],
        times: Sequence[float | None] | None,
    ) -> tuple[list[Recent], list[Recent], int, float]:
        """Predictions of rows of one model and version, see `begin`."""
        kind, numbers = lane.kind, range(first, last)
        found: tuple[list[Recent], list[Recent], int, float] = begin(
            ids, first, last, self._number, lane.collected, lane.serial,
            kind.width or [kind.width_of(call.rows, i) for i in numbers],
            [kind.given(call.rows, i) for i in numbers] if kind.columns else None, times,
        )  # fmt: skip
        return found

    @one_at_a_time
    def forget_before(self, number: int) -> None:
        """Drop the predictions that are numbered below: none of their labels will come."""
        order, gone = self._order, 0
        while order and order[0].number < number:
            entry = order.popleft()
            gone += entry.size
            lane = self._serials[entry.lane]
            forget(lane.recent, lane.requests, entry)
        self._size -= gone

    def _forget(self) -> None:
        """Drop the oldest predictions until the rest fits."""
        self._size = forget_oldest(self._order, self._size, self._bound, self._serials)

    def _abandon(self, left: Sequence[Recent]) -> None:
        """Discard predictions of an interrupted call."""
        gone = {entry.number for entry in left}
        self._keep([one for one in self._order if one.number not in gone])
        self._events = None

    def _add(self, lane: Lane) -> None:
        self._begun += 1
        lane.scores = self._scores
        lane.serial = self._begun
        self._lanes[lane.name] = self._serials[lane.serial] = lane
        self._models.setdefault(lane.name[0], []).append(lane)

    def _lanes_for(self, name: Name) -> Collection[Lane]:
        """Lanes to which a label for ``name`` can belong."""
        if name == ONLY:
            return self._lanes.values()
        every = self._lanes.values() if name[0] is None else self._models.get(name[0], ())
        return [lane for lane in every if is_of(lane.name, name)]

    def _keep(self, order: Iterable[Recent]) -> None:
        """Keep only these of the recent predictions."""
        self._order = deque(order)
        self._size = sum(entry.size for entry in self._order)

    def _label(self, taken: _Taken, k: int, rows: list[Recent], call: Call) -> Outcome:
        """Process the k-th label of a call; ``rows`` are the rows of the call before it."""
        one, y, row, given = taken.one, taken.y, taken.row, taken.given
        id, name = one.id, (one.model, one.version)
        if one.of is not None:
            its = rows[one.of]
            of = self._serials.get(its.lane)  # None: dropped meanwhile
            mine = None if of is None else self._y(taken, of)
            learned = (
                of is not None
                and mine is not None
                and self._teach(of, its, mine, call, k, time=one.time)
            )
            return "learned" if learned else "repeated"
        named = name != ONLY
        found = [
            (lane, entry)
            for lane in self._lanes_for(name)
            if (entry := lane.recent.get(id)) is not None
        ]
        if found:
            learned = False
            for lane, kept in found:
                if (mine := self._y(taken, lane)) is None:
                    continue
                brings = row is not None and row != lane.raw_of(kept, call)
                learned |= self._teach(
                    lane, kept, mine, call, k, row if brings else None, given, one.time
                )
            return "learned" if learned else "repeated"
        if row is not None:
            self._learn(self._lane(name, call), y, call, row, given)
            return "learned"
        lane_name = name if named else None
        if id is not None:
            if self._lone.get(id, lane_name) is not None:
                new, _, differs = self._news_of_lone(id, lane_name, taken.told)
                if new is None:
                    self._changed += differs
                    return "repeated"
            if (held := self._held.get(id, lane_name)) is not None:
                return self._hold_more(held, taken.told)
        if self._wait > 0 and one.time is not None and id is not None:
            late = Held(float(one.time), id, taken.told, lane_name)
            self._held.add(late)
            while (oldest := self._held.take_excess()) is not None:
                self._let_go(oldest, call)
            return "held"
        self._alone(id, lane_name, taken.told, call)
        return "unknown"

    def _hold_more(self, held: Held, told: Any) -> Outcome:
        """Add a label to a held one of its id: of several labels it may have more."""
        like = self._like
        try:
            news = like.news(like.label(held.label, held.id), like.label(told, held.id))
        except UnknownClass:  # of a model with other classes
            return "repeated"
        self._changed += news.differs
        if news.y is None:
            return "repeated"
        self._held.add_to(held, like.held(news.known))
        return "held"

    def _teach(
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
    ) -> bool:
        """Learn the label of a kept prediction; return False where it is not new."""
        new, known, differs = lane.kind.news(entry.known, y)
        self._changed += differs
        if new is None:
            return False
        if lane.tells and entry.at >= 0:
            lane.run(call)
        call.active[lane] = None
        entry.known = known
        call.taught.append(Taught(k, lane.name, entry, time, n))
        lane.learn(new, entry, row, given, call.dues[k] if call.dues else None)
        return True

    def _learn(
        self,
        lane: Lane,
        y: Any,
        call: Call,
        row: bytes | None = None,
        given: Given | None = None,
    ) -> None:
        """Learn a label without a kept prediction."""
        call.active[lane] = None
        lane.learn(y, None, row, given)

    def _let_go(self, late: Held, call: Call) -> None:
        """Release a label whose prediction did not arrive."""
        self._alone(late.id, late.lane, late.label, call)

    def _alone(self, id: Id | None, named: Name | None, told: Any, call: Call) -> None:
        """Learn a label without its prediction: a single corrector learns the class mix."""
        y, known, differs = self._news_of_lone(id, named, told)
        self._changed += differs
        if id is not None and known is not None:  # of several labels some may be unknown
            self._lone.put(id, named, known)
        if y is not None and named is None and self._lanes.keys() <= {ONLY}:
            self._learn(self._lane(ONLY, call), y, call)

    def _news_of_lone(self, id: Id | None, named: Name | None, told: Any) -> News:
        """Compare a label without a prediction to an earlier one of its id: what is new, as a
        snapshot stores it, and whether they differ."""
        before, like = None if id is None else self._lone.get(id, named), self._like
        try:
            known = None if before is None else like.label(before, id)
            new, known, differs = like.news(known, like.label(told, id))
        except UnknownClass:  # of a model with other classes
            return News(None, told if before is None else before, before not in (None, told))
        return News(new, before if known is None else like.held(known), differs)

    # ---- events

    @one_at_a_time
    def keep_events(self) -> SentBatch:
        """Start recording events for :meth:`take_events`; return the recent predictions so far."""
        self._events, self._named = _Events([], [], [], {}), self._like.n_named
        return self._recent()

    @one_at_a_time
    def stop_events(self) -> None:
        """Stop recording events until :meth:`keep_events` is called again."""
        self._events = None

    @one_at_a_time
    def take_events(self) -> Events:
        """Take the events since the last call or :meth:`keep_events`. With the state of that time
        :meth:`play_events` reproduces the present one."""
        if self._events is None:
            raise ValueError(
                "take_events: call keep_events first, also after an interrupted call, and store the"
                " state with it: the events start from there"
            )
        taken, self._events = self._events, _Events([], [], [], {})
        sent = self._batch_of(taken.rows, taken.dropped, self._named)
        self._named = self._like.n_named
        return Events(sent, taken.labels, taken.starts)

    @one_at_a_time
    def play_events(self, events: Events) -> None:
        """Correct and learn again what another learner was given.

        Raises
        ------
        SnapshotMismatch
            The predictions have other classes or columns, or do not follow the last one.
        """
        with saved.refused():
            numbers = events.sent.numbers
            saved.require(not len(numbers) or numbers[0] >= self._number, "the rows come again")
            self._play_batch(events, sent=False)

    def require_sent(self, batch: SentBatch) -> None:
        """Check rows that another process sent, as far as they can be without the corrector of
        their model: what passes can be played, and loaded again.

        Raises
        ------
        SnapshotMismatch
            Columns are not declared, or a row or receipt is none.
        """
        with saved.refused():
            self._require_columns(batch)
            for lane in batch.lanes:
                self._like.require_sent(lane)

    @one_at_a_time
    def play_sent(
        self, events: Events, *, without: Collection[Name] = (), until: float = math.inf
    ) -> Corrected:
        """Observe rows that other correctors sent, keep them as sent, and learn the labels between
        them: one learner serves many processes that correct.

        Each of those processes corrects by ``correct_many(P, receipt=True)`` with a snapshot from
        :attr:`correctors`, renewed now and then. A label is judged by the row and receipt that were
        sent. The result has the rows as sent, without sets.

        Parameters
        ----------
        events
            Predictions, which keep their numbers; labels, and starts of models. Rows whose classes
            differ from those of their model here are skipped.
        without
            Models and versions whose rows are skipped.
        until
            Upper bound in seconds of the clock by which labels wait: other correctors may be
            behind, and their next rows older.

        Raises
        ------
        SnapshotMismatch
            The predictions have other columns.
        """
        self._until = until
        try:
            with saved.refused():
                return self._play_batch(events, sent=True, without=without)
        finally:
            self._until = math.inf

    def _play_batch(
        self, events: Events, *, sent: bool, without: Collection[Name] = ()
    ) -> Corrected:
        """Process a batch and the labels between its rows; ``sent``: keep rows as corrected."""
        batch = events.sent
        self._require_columns(batch)
        places = batch.places()
        labels, starts, first = deque(events.labels), deque(events.starts), 0
        found = list[Corrected]()
        # Models with different classes need separate calls, and so does one that starts over.
        cuts = {*batch.cuts(), *(due for due, *_ in starts if due > 0), len(batch)}
        if sent:
            cuts.update(batch.lane_cuts(self._others_of(batch, without)))
        for last in sorted(cuts):
            while starts and starts[0][0] <= first:
                _, name, data = starts.popleft()
                self.start(saved.corrector(data), *name)
            some, before = list[LateLabel](), len(events.labels) - len(labels)
            while labels and labels[0].due <= last:
                one = labels.popleft()
                if first:
                    its = None if one.of is None else one.of - first
                    one = msgspec.structs.replace(one, due=one.due - first, of=its)
                some.append(one)
            of, at = batch.of[first:last], places[first:last]
            used = np.unique(of).tolist()
            those = [batch.lanes[k] for k in used]
            same = all(
                self._kind_of(one.name).fits(one) and one.name not in without for one in those
            )
            if not same and sent:  # of another model of this name: skipped
                none = [msgspec.structs.replace(one, due=0, of=None) for one in some]
                played = self._play([], None, none, None, ONLY, None)
                self._number += last - first
                played = played._replace(asked=[None] * (last - first))
            else:
                saved.require(same, "the classes of a model")
                P, made = self._rows(batch, used, first, last, at)
                if not sent or first == last:
                    made = None
                played = self._play_rows(batch, first, last, P, some, made)
            taught = [
                one._replace(label=one.label + before) if one.label >= 0 else one
                for one in played.taught
            ]
            found.append(played._replace(taught=taught))
            first = last
        for _, name, data in starts:
            self.start(saved.corrector(data), *name)
        return found[0] if len(found) == 1 else _joined(found)

    def _rows(
        self, batch: SentBatch, used: Sequence[int], first: int, last: int, at: NDArray[np.int64]
    ) -> tuple[Any, NDArray[np.float32] | None]:
        """Rows of a batch as those of a call, and as sent. They are of the lanes ``used``, with the
        same classes, and at these places within them."""
        if len(batch.lanes) == 1:
            (lane,) = batch.lanes
            lane = lane._replace(rows=lane.rows[first:last])
            return self._kind_of(lane.name).load_rows(lane), lane.rows
        P: Any = None
        made = None
        of = batch.of[first:last]
        for k in used:
            mine, lane = of == k, batch.lanes[k]
            lane = lane._replace(rows=lane.rows[at[mine]])
            rows = self._kind_of(lane.name).load_rows(lane)
            if len(used) == 1:
                return rows, lane.rows
            if P is None or made is None:
                P = np.empty((len(of), rows.shape[1]))
                made = np.empty((len(of), lane.rows.shape[1]), np.float32)
            P[mine], made[mine] = rows, lane.rows
        return P, made

    def _others_of(self, batch: SentBatch, without: Collection[Name]) -> set[int]:
        """Indices of the lanes of a batch to skip: those given, and those with other classes."""
        return {
            k
            for k, lane in enumerate(batch.lanes)
            if lane.name in without or not self._kind_of(lane.name).fits(lane)
        }

    def _play_rows(
        self,
        batch: SentBatch,
        first: int,
        last: int,
        P: Any,
        labels: Sequence[LateLabel],
        made: NDArray[np.float32] | None,
    ) -> Corrected:
        """Process some rows of a batch, all of the same classes, and the labels between them."""
        if len(batch.lanes) == 1:
            names: Any = batch.lanes[0].name
        else:
            names = [batch.lanes[k].name for k in batch.of[first:last].tolist()]
        columns = {name: values[first:last] for name, values in batch.columns.items()}
        return self._play(
            batch.ids[first:last], P, labels, columns or None, names,
            batch.times[first:last].tolist(), made,
        )  # fmt: skip

    def _recent(self) -> SentBatch:
        return self._batch_of(self._order, {}, self._like.n_named)

    def _batch_of(
        self, rows: Collection[Recent], dropped: Mapping[int, Lane], named: int
    ) -> SentBatch:
        blobs: dict[int, list[bytes]] = {}
        for entry in rows:
            blobs.setdefault(entry.lane, []).append(entry.blob)
        places = {serial: k for k, serial in enumerate(blobs)}
        every = [(self._serials.get(k) or dropped[k], some) for k, some in blobs.items()]
        lanes = [
            SentLane(
                lane.name, lane.kind.classes, _rows_as_one(some), lane.kind.names_from(named)
            )
            for lane, some in every
        ]  # fmt: skip
        return SentBatch(
            [entry.id for entry in rows],
            np.array([entry.number for entry in rows], np.int64),
            np.array([entry.time for entry in rows], np.float64),
            lanes, np.array([places[entry.lane] for entry in rows], np.int32),
            columns_of(self.segments, [entry.columns for entry in rows]),
        )  # fmt: skip

    def _require_columns(self, batch: SentBatch) -> None:
        known = set(batch.columns) <= set(self.segments)
        saved.require(known, "columns that are not declared")

    def _told(self, taken: _Taken, first: int) -> LateLabel:
        """Encode a label of a call for another learner; ``first`` rows come before the call's."""
        one, names = taken.one, self.segments
        return LateLabel(
            one.id, taken.told, first + one.due,
            None if one.of is None else first + one.of,
            None if taken.row is None else self._like.told_row(taken.row),
            None if taken.given is None else dict(zip(names, taken.given, strict=True)),
            one.model, one.version, one.time,
        )  # fmt: skip

    # ---- the whole state

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """Serialise correctors, kept predictions, scores, requests and held labels, versioned and
        checksummed."""
        return saved.joined(self.state(), self._recent().to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    @one_at_a_time
    def state(self, *, without: Collection[Name] = ()) -> State:
        """The state without the rows of recent predictions, which are in sent batches.

        Parameters
        ----------
        without
            Models and versions whose correctors are left out.
        """
        if sum(len(x.both) for lane in self._lanes.values() for x in lane.pending) > MOST_PENDING:
            for lane in self._lanes.values():
                lane.judge()
        head = saved.SavedHead(
            1, self._mb, self._ask, self._wait, self._max_lanes, self._dropped,
            None if math.isinf(self._clock) else self._clock, self._number, self.oldest, [],
            *marks(self._order),
            self._held.all(), self._lone.all(), self._changed,
            [(name, kind.corrector.to_bytes()) for name, kind in self._starts.items()],
        )  # fmt: skip
        every = self._lanes
        return State(
            self._begin,
            {name: lane.kind.corrector.to_bytes() for name, lane in every.items()
             if name not in without},
            saved.memory(head, every.values()),
            list(every),
        )  # fmt: skip

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        classes: int | Iterable[Hashable] | None = None,
        *,
        recent_mb: float | None = None,
        ask: float | Literal["as before"] | None = "as before",
        **settings: Any,
    ) -> Self:
        """Load :meth:`to_bytes`; the learner continues bit for bit.

        Parameters
        ----------
        data
            The result of ``to_bytes``.
        classes, **settings
            As for ``from_bytes`` of its corrector.
        recent_mb, ask
            Replace the snapshot's.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version, not of a learner, or of other
            classes or columns.
        """
        state, recent = saved.parts(data)
        return cls.from_state(
            state, [read_sent(recent)], classes, recent_mb=recent_mb, ask=ask, **settings
        )

    @classmethod
    def from_state(
        cls,
        state: State,
        sent: Iterable[SentBatch],
        classes: int | Iterable[Hashable] | None = None,
        *,
        recent_mb: float | None = None,
        ask: float | Literal["as before"] | None = "as before",
        max_lanes: int | None = None,
        label_wait: float | None = None,
        under: Callable[[Name, Any], Any] | None = None,
        whole: bool = True,
        **settings: Any,
    ) -> Self:
        """Load a :meth:`state`; the learner continues bit for bit.

        Parameters
        ----------
        state
            The result of ``state``, with every corrector.
        sent
            The batches sent before it, in order, as :meth:`take_events` returned them. They must
            contain every kept prediction; others are skipped.
        classes, **settings, recent_mb, ask
            As for :meth:`from_bytes`.
        max_lanes, label_wait
            Replace the state's.
        under
            Called with each model and version and its corrector; its result replaces the corrector,
            for example under other settings.
        whole
            Whether every kept prediction must be found; otherwise the oldest may be missing, and
            are dropped.

        Raises
        ------
        SnapshotMismatch
            As above; or a kept prediction is in none of the batches.
        """
        head, arrays = saved.opened(state.memory)
        with saved.refused():
            begin = saved.corrector(state.start, classes, settings)
            self = cls(
                begin if under is None else under(ONLY, begin),
                recent_mb=head.recent_mb if recent_mb is None else recent_mb,
                ask=head.ask if ask == "as before" else ask,
                label_wait=head.label_wait if label_wait is None else label_wait,
                max_lanes=head.max_lanes if max_lanes is None else max_lanes,
            )
            stored: dict[Lane, Kind] = {}
            for number, one in enumerate(head.lanes):
                data = state.correctors[one.lane]
                lane, kind = self._restored(one, number, data, arrays, classes, settings, under)
                stored[lane] = kind
                if lane.name == ONLY:  # as where it began; new names keep their numbers
                    self._default = lane.kind
            for name, of in head.starts:
                own = saved.corrector(of, None, settings)
                self.start(own if under is None else under(name, own), *name)
            check_ids(held.id for held in head.held)
            for held in head.held:
                self._held.add(held)
            if self._lanes:
                self._start = None
            for hashed, named, label in head.lone:
                self._lone.restore(hashed, named, label)
            self._number, self._changed, self._dropped = head.number, head.changed, head.dropped
            self._clock = -math.inf if head.clock is None else head.clock
            self._recall(head, sent, stored, whole)
        self._forget()
        return self

    def _restored(
        self,
        head: saved.LaneHead,
        k: int,
        data: bytes,
        arrays: dict[str, NDArray[Any]],
        classes: int | Iterable[Hashable] | None,
        settings: dict[str, Any],
        under: Callable[[Name, Any], Any] | None,
    ) -> tuple[Lane, Kind]:
        """Restore a lane without recent predictions, and its adapter as stored."""
        stored = adapter_of(saved.corrector(data))
        own = stored.classes != self.classes
        corrector = saved.corrector(data, None if own else classes, settings)
        kind = adapter_of(corrector if under is None else under(head.lane, corrector))
        saved.require(type(kind) is type(self._like), "a model of another kind")
        saved.require(kind.columns == self.segments, "a model of other columns")
        self._mixed = self._mixed or own
        lane = Lane(head.lane, kind, self._ask, head.begun, head.last, head.after)
        if lane.asks is not None and head.asks is not None:
            lane.asks = lane.asks.resumed(head.asks)
        lane.pending = saved.pending(head, kind)
        lane.judged = kind.load_judged(arrays[f"raw.{k}"], arrays[f"sent.{k}"], head.alarm)
        saved.require(lane.name not in self._lanes, "two models of a name")
        self._add(lane)
        return lane, stored

    def _recall(
        self,
        head: saved.SavedHead,
        sent: Iterable[SentBatch],
        stored: dict[Lane, Kind],
        whole: bool,
    ) -> None:
        """Restore the recent predictions of a state."""
        last = -1
        kept = list[tuple[Lane, Recent]]()
        for batch in sent:
            numbers = batch.numbers.tolist()
            saved.require(not numbers or last < numbers[0], "the order of sent batches")
            last = max(last, *numbers, -1)
            if last < head.oldest:
                continue
            saved.require(last < head.number, "sent batches behind the state")
            check_ids(batch.ids)
            lanes, blobs = list[Lane | None](), list[Iterator[bytes]]()
            for k, one in enumerate(batch.lanes):
                lane, rows = self._lanes.get(one.name), one.rows
                mine = batch.numbers[batch.of == k]
                if lane is None or not len(mine) or mine[-1] < lane.begun:  # it was dropped
                    lanes.append(None)
                    blobs.append(iter(()))
                    continue
                of_it = rows[mine >= lane.begun]
                try:  # of what another process sent, rows of other classes were not played
                    saved.require(lane.kind.fits(one), "the classes of a model")
                    blobs.append(iter(lane.kind.load_blobs(of_it, stored[lane])))
                except ValueError:
                    if whole:
                        raise
                    lanes.append(None)
                    blobs.append(iter(()))
                    continue
                lanes.append(lane)
            self._require_columns(batch)
            names = self.segments
            texts = [batch.columns.get(name) for name in names]
            for i, (id, number, k, time) in enumerate(
                zip(batch.ids, numbers, batch.of.tolist(), batch.times.tolist(), strict=True)
            ):
                lane = lanes[k]
                if lane is None or number < lane.begun:
                    continue
                blob = next(blobs[k])
                if id is None or number < head.oldest:
                    continue
                given = None
                if batch.columns:
                    given = tuple([None if one is None else one[i] for one in texts])
                entry = recalled(id, number, given, blob, time, lane.serial)
                kept.append((lane, entry))
        n, known, every = len(kept), dict(head.known), len(head.flags)
        enough = n == every if whole else n <= every
        saved.require(enough, "sent batches of recent predictions are missing")
        saved.require(max(known, default=-1) < every, "the labels of recent predictions")
        for i, (lane, entry) in enumerate(kept, every - n):
            self._recall_one(lane, entry, head.flags[i], known.get(i))

    def _recall_one(self, lane: Lane, entry: Recent, flags: int, known: Any) -> None:
        """Restore one prediction with the state's marks."""
        assert entry.id is not None
        mark(entry, flags)
        entry.known = lane.kind.load_known(known)
        keep(lane.recent, lane.requests, [entry])
        if entry.asked is not None and known is None and self._ask is not None:
            lane.requests[entry.id] = entry.asked
        self._order.append(entry)
        self._size += entry.size

    # ---- inspection

    @property
    def classes(self) -> tuple[Any, ...]:
        """Names of the classes, in column order."""
        return self._like.classes

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the declared columns."""
        return self._like.columns

    @property
    def row_kind(self) -> str:
        """Name of the kind of rows."""
        kind: str = self._like.corrector.row_kind
        return kind

    @property
    def numbering(self) -> Any:
        """What checks rows and numbers their classes as they appear; None where classes are
        declared."""
        return self._like.numbering

    @property
    def sets(self) -> float | None:
        """Coverage that prediction sets promise; None without sets."""
        return self._like.sets

    @property
    def train_prior(self) -> Array:
        """The training prior of the initial corrector, shape (m,); of several labels the share of
        training rows with each; of very many classes empty, shape (0,)."""
        return self._like.train_prior

    @property
    def ask(self) -> float | None:
        """The share of labels requested; None without requests."""
        return self._ask

    @property
    @one_at_a_time
    def models(self) -> list[Name]:
        """(model, version) of each corrector, (None, None) without models, in the order of their
        first predictions."""
        return list(self._lanes)

    @one_at_a_time
    def models_of(self, id: Id, model: str | None = None, version: str | None = None) -> list[Name]:
        """(model, version) of each corrector that keeps a prediction of an id; of this model and
        version, where given."""
        return [lane.name for lane in self._lanes_for((model, version)) if id in lane.recent]

    @property
    @one_at_a_time
    def live(self) -> dict[Name, Live]:
        """The corrector of each (model, version); before the first prediction the initial one."""
        if not self._lanes:
            return {ONLY: Live(self._default.corrector, None)}
        return {name: Live(lane.kind.corrector, lane.after) for name, lane in self._lanes.items()}

    @property
    @one_at_a_time
    def episodes(self) -> dict[Name, Episode]:
        """Open episodes of each (model, version) that is worse than before."""
        alarms = {name: lane.judged.alarm for name, lane in self._lanes.items()}
        found = {name: one.episode for name, one in alarms.items() if one is not None}
        return {name: one for name, one in found.items() if one is not None}

    @property
    @one_at_a_time
    def scores(self) -> dict[Name, tuple[Any, Any]]:
        """Raw and sent `Scores` of labelled predictions for each (model, version), (None, None)
        without models; of several labels `LabelScores`."""
        found = {name: lane.now for name, lane in self._lanes.items()}
        return {name: (now.raw, now.sent) for name, now in found.items()}

    @property
    @one_at_a_time
    def alarms(self) -> dict[Name, Alarm]:
        """Alarms of the 20 (model, version) with most labels: whether the classifier became worse;
        none for several labels."""
        found = {
            name: lane.now for name, lane in self._lanes.items() if lane.judged.alarm is not None
        }
        most = sorted(found, key=lambda name: -found[name].raw.n)[:MOST_ALARMS]
        return {name: found[name].alarm for name in most}

    @property
    @one_at_a_time
    def requests(self) -> dict[Name, dict[Id, Reason]]:
        """Ids with open label requests and the reasons, for each (model, version)."""
        return {name: dict(lane.requests) for name, lane in self._lanes.items()}

    @property
    @one_at_a_time
    def correctors(self) -> dict[Name, bytes]:
        """The snapshot of each corrector; before the first prediction of the initial one."""
        if not self._lanes:
            return {ONLY: self._begin}
        return {name: lane.kind.corrector.to_bytes() for name, lane in self._lanes.items()}

    @property
    @one_at_a_time
    def requested(self) -> set[int]:
        """Numbers of the predictions with open label requests."""
        every = self._lanes.values()
        return {lane.recent[id].number for lane in every for id in lane.requests}

    @property
    @one_at_a_time
    def open_requests(self) -> tuple[int, float | None]:
        """Number of open label requests, and the time of the oldest prediction among them, in
        seconds."""
        those = [lane.recent[id].time for lane in self._lanes.values() for id in lane.requests]
        known = [one for one in those if not math.isnan(one)]
        return len(those), min(known, default=None)

    @property
    def next_number(self) -> int:
        """The number of the next prediction."""
        return self._number

    @property
    def recent_mb(self) -> float:
        """The setting."""
        return self._mb

    @property
    def max_lanes(self) -> int:
        """The setting."""
        return self._max_lanes

    @property
    def bytes_of_new(self) -> int:
        """Bytes of the corrector with which a model begins."""
        return self._default.nbytes

    @property
    def changed_labels(self) -> int:
        """Number of labels that contradicted an earlier one of their prediction; they teach
        nothing."""
        return self._changed

    @property
    def early_labels(self) -> int:
        """Number of labels that were learned without their prediction, which came later; since this
        object was made."""
        return self._lone.early

    @property
    def dropped(self) -> int:
        """Number of models and versions dropped, see ``max_lanes``."""
        return self._dropped

    @property
    @one_at_a_time
    def waiting(self) -> int:
        """Number of predictions that a label can still find."""
        return sum(len(lane.recent) for lane in self._lanes.values())

    @property
    @one_at_a_time
    def held(self) -> int:
        """Number of labels that wait for their predictions."""
        return self._held.n

    @property
    def clock(self) -> float:
        """The latest time of a prediction, in seconds; -inf without times."""
        return self._clock

    @property
    @one_at_a_time
    def oldest(self) -> int:
        """Number of the oldest kept prediction; of the next one where none is kept."""
        return self._order[0].number if self._order else self._number

    @property
    @one_at_a_time
    def bytes_kept(self) -> int:
        """Bytes of the kept predictions, as ``recent_mb`` counts them."""
        return self._size


def is_of(lane: Name, named: Name) -> bool:
    """Whether a label for ``named`` can belong to this model and version."""
    return named[0] in (None, lane[0]) and named[1] in (None, lane[1])


class _Taken(msgspec.Struct, gc=False):
    """A checked label of a call."""

    one: LateLabel
    y: Any
    row: bytes | None
    given: Given | None
    told: Any
    """The label as a snapshot stores it."""


class _Events(NamedTuple):
    """Events since they were last taken."""

    rows: list[Recent]
    labels: list[LateLabel]
    starts: list[tuple[int, Name, bytes]]
    dropped: dict[int, Lane]
    """Lanes that were dropped but have rows here."""


def _rows_as_one(blobs: Sequence[bytes]) -> NDArray[np.float32]:
    """Stack blobs, shape (n, words of the longest), zero-padded."""
    width = max(map(len, blobs))
    return np.frombuffer(b"".join([one.ljust(width, b"\0") for one in blobs]), "<f4").reshape(
        len(blobs), width // 4
    )


def _joined(found: Sequence[Corrected]) -> Corrected:
    """Join the results of several calls; rows of different classes stay separate."""
    return Corrected(
        np.concatenate([one.rows for one in found])
        if len({one.rows.shape[1] for one in found}) == 1
        else np.empty((0, 0)),
        None,
        [one for call in found for one in call.asked],
        [one for call in found for one in call.outcomes],
        [one for call in found for one in call.taught],
    )  # fmt: skip


def _one(columns: Mapping[str, Any] | None) -> dict[str, list[Any]] | None:
    return None if columns is None else {name: [value] for name, value in columns.items()}
