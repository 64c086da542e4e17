"""Learner: a corrector with memory. Predictions go by under their ids; labels come back by id."""

from __future__ import annotations

import heapq
import math
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import InvalidPrediction, SnapshotMismatch, UnknownClass
from stream_can.method.asking import LabelRequests
from stream_can.method.receipts import NOT_FAIR, OF_ROW, size
from stream_can.method.rows import as_float64
from stream_can.method.segments import text_of
from stream_can.scores import Scores
from stream_can.trust.alarm import Alarm
from stream_can.trust.locking import one_at_a_time

__all__ = ["Corrected", "Learner"]

Array = NDArray[np.float64]
Id = str | int | bytes
Outcome = Literal["learned", "repeated", "held", "unknown"]
Lane = tuple[str | None, str | None]

OVERHEAD = 480
"""Bytes of a prediction that waits, beside its numbers, its id and its columns."""
TOGETHER = 256
"""Labelled predictions that are scored at a time."""
MOST_HELD = 100_000
"""Labels that wait for their prediction; the oldest is given up for another."""
MOST_ALARMS = 20
"""Models and versions, those with most labels, that have an alarm each."""
ONLY: Lane = (None, None)


class Corrected(NamedTuple):
    """What :meth:`Learner.correct_many` makes of rows."""

    rows: Array
    """Corrected, shape (n, m)."""
    sets: list[list[Any]] | None
    """Of each row the names of the classes in its prediction set, the likeliest first; None where
    the corrector makes none."""
    asked: list[str | None]
    """Why the label of each row is wanted, "random" or "margin"; None where it is not."""


class Recent(msgspec.Struct, gc=False):
    """A prediction that waits for its label, or has had it."""

    number: int
    blob: bytes
    """The row, what was sent, and the receipt, one behind the other."""
    size: int
    columns: dict[str, str | None] | None
    fair: bool
    """Whether its label was not asked for because of what is in the row."""
    labelled: bool = False


class Held(msgspec.Struct, array_like=True):
    """A label that came before its prediction."""

    time: float
    number: int
    id: Any
    label: Any
    lane: Lane | None


class Judged(NamedTuple):
    """What became of labelled predictions."""

    raw: Scores
    """As they came."""
    sent: Scores
    """As they were sent."""
    alarm: Alarm
    """Whether the classifier became worse."""

    def add(self, P: Array, sent: Array, y: NDArray[np.int64]) -> None:
        """More of them."""
        self.raw.add_checked(P, y)
        self.sent.add_checked(sent, y)
        self.alarm.learn_many(P, sent, y, None)


class OfLane:
    """What learns of one model and version."""

    def __init__(self, corrector: Corrector, ask: float | None) -> None:
        self.corrector = corrector
        self.asks = None if ask is None else LabelRequests(ask)
        self.recent: OrderedDict[Id, Recent] = OrderedDict()
        self.requests: dict[Id, str] = {}
        self.judged = Judged(Scores(), Scores(), Alarm())
        self.pending: list[tuple[bytes, int]] = []
        """Rows as they came and as they were sent, and their labels, that are not scored yet."""

    def answered(self, id: Id, one: Recent) -> None:
        """The label of a prediction has come: no other one counts."""
        one.labelled = True
        self.requests.pop(id, None)

    def learn(self, labels: Iterable[tuple[Recent | None, Any]]) -> None:
        """Labels with their predictions, or None, in order; together where that is the same."""
        for known, those in groupby(labels, lambda pair: pair[0] is not None):
            found, ys = zip(*those, strict=True)
            if known:
                self._learn(found, ys)
            else:
                self.corrector.learn_many(None, ys)

    def _learn(self, found: Sequence[Recent], ys: Sequence[Any]) -> None:
        P, receipts = self.split(found)
        if self.corrector.sets is not None and not all(one.fair for one in found):
            receipts = receipts.copy()
            receipts[[not one.fair for one in found], OF_ROW] = NOT_FAIR
        names = self.corrector.segments
        if len(found) == 1:
            self.corrector.learn_one(
                P[0], ys[0], receipt=receipts[0], segments=found[0].columns if names else None
            )
        else:
            columns = {n: [(one.columns or {}).get(n) for one in found] for n in names}
            self.corrector.learn_many(P, ys, receipts=receipts, segments=columns or None)
        index = self.corrector._index
        for one, y in zip(found, ys, strict=True):
            if one.fair:
                self.score(one.blob, index[y])

    def score(self, blob: bytes, y: int) -> None:
        """A labelled prediction; they are scored some at a time, always the same ones."""
        self.pending.append((blob[: 16 * len(self.corrector.classes)], y))
        if len(self.pending) == TOGETHER:
            self.judged.add(*self.take(self.pending))
            self.pending = []

    def take(self, pending: Sequence[tuple[bytes, int]]) -> tuple[Array, Array, NDArray[np.int64]]:
        """Rows, rows as sent, and labels."""
        m = len(self.corrector.classes)
        both = np.frombuffer(b"".join(blob for blob, _ in pending)).reshape(len(pending), 2, m)
        return (
            np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1]),
            np.array([y for _, y in pending], np.int64),
        )  # fmt: skip

    @property
    def now(self) -> Judged:
        """A copy, with what is not scored yet."""
        raw, sent, alarm = self.judged
        found = Judged(raw + Scores(), sent + Scores(), Alarm.from_bytes(alarm.to_bytes()))
        if self.pending:
            found.add(*self.take(self.pending))
        return found

    def split(self, found: Sequence[Recent]) -> tuple[Array, NDArray[np.float32]]:
        """Rows and receipts."""
        m = len(self.corrector.classes)
        if len(found) == 1:
            (one,) = found
            return (
                np.frombuffer(one.blob, np.float64, m)[None],
                np.frombuffer(one.blob, np.float32, offset=16 * m)[None],
            )
        data = np.frombuffer(b"".join(one.blob for one in found), np.uint8)
        data = data.reshape(len(found), -1)
        P = np.ascontiguousarray(data[:, : 8 * m]).view(np.float64)
        return P, np.ascontiguousarray(data[:, 16 * m :]).view(np.float32)


class LaneHead(msgspec.Struct):
    """What a snapshot says of a lane beside its arrays."""

    lane: tuple[str | None, str | None]
    corrector: bytes
    asks: bytes | None
    alarm: bytes
    ids: list[Any]
    numbers: list[int]
    columns: list[dict[str, str | None] | None]
    fair: list[bool]
    labelled: list[bool]
    requests: list[tuple[Any, str]]
    pending: list[tuple[bytes, int]]


class LearnerHead(msgspec.Struct):
    """What a snapshot says beside its arrays."""

    learner: Literal[1]
    start: bytes
    recent_mb: float
    ask: float | None
    label_wait: float
    clock: float | None
    number: int
    lanes: list[LaneHead]
    held: list[Held]


class Learner:
    """A corrector with memory: it keeps rows and receipts until their labels come.

    Predictions go by under an id; a label that names the id finds its prediction, however late,
    and what was sent is judged. The first label of an id counts. What is corrected and learned is,
    to the bit, what the bare `Corrector` makes of the same rows, receipts and labels.

    With models and versions each pair has a corrector of its own. A new version begins as its
    predecessor's :meth:`Corrector.successor`; a label that names no model teaches each that has
    predicted its id. One object serves all threads.

    Parameters
    ----------
    corrector
        What corrects, also one that has learned; it is the learner's from here on. With models what
        each of them begins with.
    recent_mb
        Memory for predictions that wait for their label, in MiB, ids included: 16 m bytes, 4 for
        each number of a receipt, the id, its columns, and 480; the oldest go.
    ask
        Ask for the labels of about this share of the predictions, see `LabelRequests`. Then labels
        that were asked for because of their row teach no sets and are not scored.
    label_wait
        How many seconds a label waits for its prediction where it comes first, by the times of
        the predictions that go by; then it teaches the class mix alone. 0 for not at all.

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

    def __init__(
        self,
        corrector: Corrector,
        *,
        recent_mb: float = 64,
        ask: float | None = None,
        label_wait: float = 0,
    ) -> None:
        if not recent_mb > 0:
            raise ValueError(f"recent_mb: {recent_mb!r}, expected a number > 0")
        if not 0 <= label_wait < math.inf:
            raise ValueError(f"label_wait: {label_wait!r}, expected seconds, 0 or more")
        if ask is not None:
            LabelRequests(ask)  # refuses what is no share
        self._lock = threading.RLock()
        self._start: Corrector | None = corrector
        self._begin = corrector.to_bytes()
        self._ask, self._wait = ask, float(label_wait)
        self._mb, self._bound = float(recent_mb), int(recent_mb * (1 << 20))
        self._lanes: dict[Lane, OfLane] = {}
        self._order: OrderedDict[int, tuple[Lane, Id]] = OrderedDict()
        """Of each kept prediction, by its running number, where it is; oldest first."""
        self._held: OrderedDict[tuple[Id, Lane | None], Held] = OrderedDict()
        self._due: list[tuple[float, int, Held]] = []
        """A heap of those by time, also of some that are held no more."""
        self._size = self._number = 0
        self._clock = -math.inf

    # ---- predictions

    def correct(
        self,
        id: Id,
        p: ArrayLike,
        *,
        columns: Mapping[str, Any] | None = None,
        model: str | None = None,
        version: str | None = None,
        time: float | None = None,
    ) -> Array:
        """Correct a prediction, shape (m,), and keep it for its label.

        Parameters
        ----------
        id
            What its label will name: a text, an integer or bytes. Of several predictions of one id
            the latest waits.
        p
            Probabilities as for :meth:`Corrector.process_one`.
        columns
            {column: value} of the declared columns.
        model, version
            Whose prediction it is.
        time
            When it was made, in seconds, for ``label_wait``.

        Returns
        -------
        The corrected row, a new float64 array, shape (m,).

        Raises
        ------
        InvalidPrediction, ValueError, TypeError
            Row, columns or id cannot be used; nothing has changed.
        """
        lane = model, version
        raw = as_float64(p, self._like(lane)._index)[None]
        row: Array = self._correct([id], raw, _one(columns), lane, [time]).rows[0]
        return row

    def correct_many(
        self,
        ids: Iterable[Id],
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
        names = list(ids)
        return self._correct(names, P, columns, (model, version), times or [None] * len(names))

    @one_at_a_time
    def _correct(
        self,
        ids: list[Id],
        P: Any,
        columns: Mapping[str, Sequence[Any]] | None,
        lane: Lane,
        times: Sequence[float | None],
    ) -> Corrected:
        for id in ids:
            _check_id(id)
        like = self._like(lane)
        raw = as_float64(P, like._index)
        if raw.ndim == 2 and len(raw) != len(ids):
            raise InvalidPrediction(f"{len(ids)} ids for {len(raw)} rows")
        last = max((time for time in times if time is not None), default=-math.inf)
        waits = self._is_due(last) or any(self._held_for(id, lane) for id in ids)
        if waits or lane not in self._lanes:  # what is refused changes nothing, here too
            like.correct_many(raw, segments=columns)
        if len(ids) > 1 and waits:  # labels come between the rows
            parts = [
                self._correct([id], raw[i : i + 1], _cut(columns, i), lane, [times[i]])
                for i, id in enumerate(ids)
            ]
            sets = None if parts[0].sets is None else [(part.sets or [])[0] for part in parts]
            rows = np.concatenate([part.rows for part in parts])
            return Corrected(rows, sets, [part.asked[0] for part in parts])
        self._give_up(last)
        of = self._lane_of(lane)
        corrector = of.corrector
        rows, receipts = corrector.process_many(raw, receipt=True, segments=columns)
        self._clock = max(self._clock, last)
        sets = None
        if corrector.sets is not None:
            sets = [corrector.set_of(row, r) for row, r in zip(rows, receipts, strict=True)]
        reasons: list[str | None] = [None] * len(ids)
        if of.asks is not None:
            reasons = [one and one.reason for one in of.asks.ask_many(ids, rows)]
        self._keep(lane, of, ids, [raw, rows, receipts], columns, reasons)
        for id in ids if self._held else ():
            self._take_held(lane, of, id)
        self._forget()
        return Corrected(rows, sets, reasons)

    def _like(self, lane: Lane) -> Corrector:
        """The corrector of a model and version, or one that takes what a new one would."""
        found = self._lanes.get(lane)
        if found is not None:
            return found.corrector
        return self._start or Corrector.from_bytes(self._begin)

    def _lane_of(self, lane: Lane) -> OfLane:
        """What corrects a model and version; a new one begins as its predecessor's successor."""
        found = self._lanes.get(lane)
        if found is not None:
            return found
        before = [other for other in self._lanes if other[0] == lane[0]]
        if before:
            corrector = self._lanes[before[-1]].corrector.successor()
        elif self._start is not None:
            corrector, self._start = self._start, None
        else:
            corrector = Corrector.from_bytes(self._begin)
        self._lanes[lane] = found = OfLane(corrector, self._ask)
        return found

    def _keep(
        self,
        lane: Lane,
        of: OfLane,
        ids: list[Id],
        arrays: list[NDArray[Any]],
        columns: Mapping[str, Sequence[Any]] | None,
        asked: list[str | None],
    ) -> None:
        """Rows, rows as sent and receipts wait for their labels."""
        data = np.concatenate([np.ascontiguousarray(x).view(np.uint8) for x in arrays], axis=1)
        blobs, width, recent, order = data.tobytes(), data.shape[1], of.recent, self._order
        names = [] if columns is None else [n for n in of.corrector.segments if n in columns]
        for i, id in enumerate(ids):
            if (old := recent.pop(id, None)) is not None:
                del order[old.number]
                self._size -= old.size
                of.requests.pop(id, None)
            given = None
            if columns is not None:
                given = {name: text_of(columns[name][i]) for name in names}
            blob = blobs[i * width : (i + 1) * width]
            much, why = _size_of(id, blob, given), asked[i]
            fair = of.asks is None or why == "random"
            recent[id] = Recent(self._number, blob, much, given, fair)
            order[self._number] = lane, id
            self._size += much
            self._number += 1
            if why is not None:
                of.requests[id] = why

    def _forget(self) -> None:
        """Let the oldest predictions go until the others fit."""
        while self._size > self._bound:
            _, (lane, id) = self._order.popitem(last=False)
            of = self._lanes[lane]
            self._size -= of.recent.pop(id).size
            of.requests.pop(id, None)

    # ---- labels

    def label(
        self,
        id: Id,
        label: Any,
        *,
        row: ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
        model: str | None = None,
        version: str | None = None,
        time: float | None = None,
    ) -> Outcome:
        """Learn the label of a prediction; the first one of an id counts.

        Parameters
        ----------
        id, label
            The id of the prediction, and the name of the class.
        row, columns
            The classifier's own prediction and its columns, for an id that is not kept any more.
        model, version
            Whose prediction it is of; without them that of every model that has predicted the id.
        time
            When the label was made, in seconds, for ``label_wait``.

        Returns
        -------
        "learned" with its prediction; "repeated", which teaches nothing; "held" until its
        prediction comes; "unknown": the prediction is not kept, and where there are no models the
        label teaches the class mix alone.

        Raises
        ------
        UnknownClass, InvalidPrediction, ValueError, TypeError
            Nothing was learned.
        """
        return self._label([id], [label], row, columns, (model, version), [time])[0]

    def label_many(
        self,
        ids: Iterable[Id],
        labels: Iterable[Any],
        *,
        model: str | None = None,
        version: str | None = None,
        times: Sequence[float | None] | None = None,
    ) -> list[Outcome]:
        """:meth:`label` for each id and label, in order; all are checked before the first is
        learned."""
        names, ys = list(ids), list(labels)
        if len(names) != len(ys):
            raise ValueError(f"{len(names)} ids and {len(ys)} labels")
        return self._label(names, ys, None, None, (model, version), times or [None] * len(names))

    @one_at_a_time
    def _label(
        self,
        ids: list[Id],
        labels: list[Any],
        row: ArrayLike | None,
        columns: Mapping[str, Any] | None,
        lane: Lane,
        times: Sequence[float | None],
    ) -> list[Outcome]:
        named = lane != ONLY
        lanes = [self._lanes[lane]] if lane in self._lanes and named else []
        lanes = lanes if named else [*self._lanes.values()]
        alone = not named and [*self._lanes] in ([], [ONLY])
        for id, label in zip(ids, labels, strict=True):
            _check_id(id)
            asked = [of.corrector for of in lanes if alone or id in of.recent]
            if not named and self._start is not None:  # before the first prediction
                asked.append(self._start)
            for corrector in asked:
                _require_class(corrector, id, label)
        taught: dict[OfLane, list[tuple[Recent | None, Any]]] = defaultdict(list)
        outcomes: list[Outcome] = []
        for id, label, time in zip(ids, labels, times, strict=True):
            found = [(of, one) for of in lanes if (one := of.recent.get(id)) is not None]
            waiting = [(of, one) for of, one in found if not one.labelled]
            for of, one in waiting:
                of.answered(id, one)
                taught[of].append((one, label))
            if found:
                outcomes.append("learned" if waiting else "repeated")
            elif row is not None:
                if lane not in self._lanes:  # what is refused begins no other
                    like = self._like(lane)
                    like.correct_one(row, segments=columns)
                    _require_class(like, id, label)
                self._lane_of(lane).corrector.learn_one(row, label, segments=columns)
                outcomes.append("learned")
            elif self._wait > 0 and time is not None:
                outcomes.append(self._hold(id, label, lane if named else None, time))
            else:
                if alone:
                    taught[self._lane_of(ONLY)].append((None, label))
                outcomes.append("unknown")
        for of, those in taught.items():
            of.learn(those)
        return outcomes

    # ---- labels that came first

    def _hold(self, id: Id, label: Any, lane: Lane | None, time: float) -> Outcome:
        if (id, lane) in self._held:
            return "repeated"
        self._wait_for(Held(float(time), self._number, id, label, lane))
        self._number += 1
        if len(self._held) > MOST_HELD:
            self._let_go(next(iter(self._held.values())))
        return "held"

    def _wait_for(self, one: Held) -> None:
        self._held[one.id, one.lane] = one
        heapq.heappush(self._due, (one.time, one.number, one))
        if len(self._due) > 2 * len(self._held) + 1000:  # mostly of those that were taken
            self._due = [(one.time, one.number, one) for one in self._held.values()]
            heapq.heapify(self._due)

    def _held_for(self, id: Id, lane: Lane) -> Held | None:
        """The first label that waits for a prediction of this id."""
        found = self._held.get((id, None)), self._held.get((id, lane))
        return min((one for one in found if one), key=lambda one: one.number, default=None)

    def _take_held(self, lane: Lane, of: OfLane, id: Id) -> None:
        """The label of a prediction that has just gone by."""
        if (one := self._held_for(id, lane)) is None:
            return
        del self._held[one.id, one.lane]
        if one.label in of.corrector._index:
            recent = of.recent[id]
            of.answered(id, recent)
            of.learn([(recent, one.label)])

    def _is_due(self, now: float) -> bool:
        """Whether a label has waited long enough."""
        while self._due:
            time, _, one = self._due[0]
            if self._held.get((one.id, one.lane)) is one:
                return time + self._wait < now
            heapq.heappop(self._due)
        return False

    def _give_up(self, now: float) -> None:
        """Labels whose prediction did not come: they teach the class mix alone."""
        while self._is_due(now):
            self._let_go(heapq.heappop(self._due)[2])

    def _let_go(self, one: Held) -> None:
        del self._held[one.id, one.lane]
        if one.lane is None and [*self._lanes] in ([], [ONLY]):
            of = self._lane_of(ONLY)
            if one.label in of.corrector._index:
                of.corrector.learn_one(None, one.label)

    # ---- the whole state

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """Correctors, predictions that wait, scores, requests and held labels, versioned and
        checksummed."""
        lanes, arrays = [], {}
        for number, (lane, of) in enumerate(self._lanes.items()):
            recent = list(of.recent.values())
            data = np.frombuffer(b"".join(one.blob for one in recent), "<f4")
            arrays[f"recent.{number}"] = data.reshape(len(recent), -1) if recent else data
            lanes.append(
                LaneHead(
                    lane, of.corrector.to_bytes(), None if of.asks is None else of.asks.to_bytes(),
                    of.judged.alarm.to_bytes(), list(of.recent), [one.number for one in recent],
                    [one.columns for one in recent],
                    [one.fair for one in recent], [one.labelled for one in recent],
                    list(of.requests.items()), of.pending,
                )
            )  # fmt: skip
            arrays[f"raw.{number}"] = of.judged.raw.sums()
            arrays[f"sent.{number}"] = of.judged.sent.sums()
        clock = None if math.isinf(self._clock) else self._clock
        head = LearnerHead(
            1, self._begin, self._mb, self._ask, self._wait, clock, self._number, lanes,
            list(self._held.values()),
        )  # fmt: skip
        return snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), arrays)

    @classmethod
    def from_bytes(cls, data: bytes, *, recent_mb: float | None = None) -> Self:
        """The learner that :meth:`to_bytes` wrote; it goes on bit for bit.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version or none of a learner.
        """
        head, arrays = snapshot.of_kind(data, "learner", "learner", LearnerHead)
        try:
            self = cls(
                Corrector.from_bytes(head.start), recent_mb=recent_mb or head.recent_mb,
                ask=head.ask, label_wait=head.label_wait,
            )  # fmt: skip
            for number, one in enumerate(head.lanes):
                self._restore(one, number, arrays)
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotMismatch(f"snapshot: {error}") from None
        if self._lanes:
            self._start = None
        self._order = OrderedDict(sorted(self._order.items()))
        self._number = head.number
        self._clock = -math.inf if head.clock is None else head.clock
        for held in head.held:
            self._wait_for(held)
        self._forget()
        return self

    def _restore(self, head: LaneHead, number: int, arrays: dict[str, NDArray[Any]]) -> None:
        lane: Lane = head.lane
        of = OfLane(Corrector.from_bytes(head.corrector), None)
        of.asks = None if head.asks is None else LabelRequests.from_bytes(head.asks)
        of.requests, of.pending = dict(head.requests), head.pending
        of.judged = Judged(
            Scores.from_sums(arrays[f"raw.{number}"]), Scores.from_sums(arrays[f"sent.{number}"]),
            Alarm.from_bytes(head.alarm),
        )  # fmt: skip
        m, sets = len(of.corrector.classes), of.corrector.sets is not None
        width = 4 * m + size(m, of.corrector.n_sent, sets=sets)
        data = arrays[f"recent.{number}"].reshape(len(head.ids), width)
        rows = zip(
            head.ids, head.numbers, head.columns, head.fair, head.labelled, data, strict=True
        )
        for id, at, columns, fair, labelled, row in rows:
            _check_id(id)
            blob = row.astype("<f4").tobytes()
            much = _size_of(id, blob, columns)
            of.recent[id] = Recent(at, blob, much, columns, fair, labelled)
            self._order[at] = lane, id
            self._size += much
        self._lanes[lane] = of

    # ---- to look inside

    @property
    @one_at_a_time
    def scores(self) -> dict[Lane, tuple[Scores, Scores]]:
        """Of each (model, version), (None, None) without, the scores of labelled predictions as
        they came and as they were sent."""
        found = {lane: of.now for lane, of in self._lanes.items()}
        return {lane: (now.raw, now.sent) for lane, now in found.items()}

    @property
    @one_at_a_time
    def alarms(self) -> dict[Lane, Alarm]:
        """Of each (model, version), the 20 with most labels, whether the classifier became
        worse."""
        found = {lane: of.now for lane, of in self._lanes.items()}
        most = sorted(found, key=lambda lane: -found[lane].raw.n)[:MOST_ALARMS]
        return {lane: found[lane].alarm for lane in most}

    @property
    @one_at_a_time
    def requests(self) -> dict[Lane, dict[Id, str]]:
        """Of each (model, version) the ids whose labels are wanted and have not come, and why."""
        return {lane: dict(of.requests) for lane, of in self._lanes.items()}

    @property
    @one_at_a_time
    def correctors(self) -> dict[Lane, bytes]:
        """The snapshot of each corrector."""
        return {lane: of.corrector.to_bytes() for lane, of in self._lanes.items()}

    @property
    @one_at_a_time
    def waiting(self) -> int:
        """Predictions that are kept."""
        return len(self._order)

    @property
    @one_at_a_time
    def bytes_kept(self) -> int:
        """What they take, as ``recent_mb`` counts it."""
        return self._size


def _require_class(corrector: Corrector, id: Id, label: Any) -> None:
    if label not in corrector._index:
        raise UnknownClass(f"label of {id!r}: {label!r} is none of the classes")


def _check_id(id: Any) -> None:
    if not isinstance(id, str | int | bytes) or isinstance(id, bool):
        raise TypeError(f"id: {id!r}, expected a text, an integer or bytes")
    if isinstance(id, int) and not -(2**63) <= id < 2**64:
        raise ValueError(f"id: {id}, expected an integer of 64 bits, or a text")


def _size_of(id: Id, blob: bytes, columns: Mapping[str, Any] | None) -> int:
    """What a prediction takes, as ``recent_mb`` counts it."""
    much = OVERHEAD + len(blob)
    if isinstance(id, int):
        much += 8
    else:
        much += len(id) if isinstance(id, bytes) or id.isascii() else len(id.encode())
    for text in columns.values() if columns else ():
        much += 0 if text is None else len(text)
    return much


def _one(columns: Mapping[str, Any] | None) -> dict[str, list[Any]] | None:
    return None if columns is None else {name: [value] for name, value in columns.items()}


def _cut(columns: Mapping[str, Sequence[Any]] | None, i: int) -> dict[str, list[Any]] | None:
    return None if columns is None else {name: [values[i]] for name, values in columns.items()}
