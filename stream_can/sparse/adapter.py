"""Sparse: the learner's adapter of a `SparseCorrector`."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.learner.kinds import Given, JoinedLabel, Judged, Made, News, Unscored
from stream_can.learner.sent import SentLane
from stream_can.method.rows import TOLERANCE
from stream_can.sparse.corrector import Rows, SparseCorrector, SparseRow
from stream_can.sparse.loop import MOST_LISTED, given_by
from stream_can.sparse.scores import SparseScores, rank_of, unlisted
from stream_can.trust.alarm import Alarm

__all__ = ["Sparse", "SparseBlob"]

PROMOTED = 5
"""Maximum number of classes a corrected row has beyond its own."""


class SparseBlob:
    """A row, the sent row and the receipt, to and from bytes.

    Words of 4 bytes: k, the k classes and their probabilities (float64); the number of classes
    sent, those classes, their probabilities and the rest (float64); 3 (k + 1) numbers of the
    receipt (float32).
    """

    def __init__(self, data: bytes) -> None:
        words = np.frombuffer(data, "<i4")
        k = int(words[0])
        self.ids, self.P = words[1 : 1 + k], _float64(words, 1 + k, k)
        self.raw_words = at = 1 + 3 * k
        if len(words) > at:
            n = int(words[at])
            self.sent_ids = words[at + 1 : at + 1 + n]
            *sent, self.rest = _float64(words, at + 1 + n, n + 1).tolist()
            self.sent_P = np.array(sent)
            at += 3 + 3 * n
            self.receipt = words[at : at + 3 * (k + 1)].view("<f4").reshape(3, k + 1)

    @staticmethod
    def raw(rows: Rows, i: int) -> bytes:
        """Encode the first part for a row of a call."""
        k = int(rows.ks[i])
        return (
            k.to_bytes(4, "little") + rows.ids[i, :k].astype("<i4").tobytes()
            + rows.P[i, :k].astype("<f8").tobytes()
        )  # fmt: skip


class SparseMade(NamedTuple):
    """Output of a run as it grows."""

    sent: list[SparseRow]
    blobs: list[bytes]
    found: list[bytes]
    """Rank and probability of the label of each row, where they are wanted."""


def _float64(words: NDArray[np.int32], at: int, n: int) -> NDArray[np.float64]:
    return np.frombuffer(words[at : at + 2 * n].tobytes(), "<f8")


class Sparse:
    """Adapter of a `SparseCorrector`. A row is {class: probability}; a label is its number."""

    classes: tuple[Any, ...] = ()
    segments: tuple[str, ...] = ()
    sets: float | None = None
    makes_sets = False
    random_requests = 0.5
    width = both = 0
    """0: rows differ in length."""

    described = "rows of very many classes"
    has_models = False

    nbytes = 0  # no models: there is one

    def __init__(self, corrector: SparseCorrector) -> None:
        self.corrector = corrector

    @property
    def numbering(self) -> Sparse:
        """Itself: new classes are numbered."""
        return self

    @property
    def numbered(self) -> bool:
        """Whether classes are numbers."""
        return self.corrector.names is None

    def checked(self, row: Mapping[Any, float]) -> Rows:
        """Check a row; number its new classes.

        Raises
        ------
        InvalidPrediction
            The row is invalid.
        """
        return self.corrector._row(row)

    def number(self, name: Any) -> int:
        """Return the number of a class, numbering a new name; UnknownClass where it is invalid."""
        (number,) = self.corrector._ids_of([name], "label", add=True, error=UnknownClass)
        return number

    def known(self, text: str) -> Any:
        """Find a class by its name as text; UnknownClass where no row or label had it."""
        try:
            name: Any = int(text) if self.numbered else text
        except ValueError:
            raise UnknownClass(f"{text!r} is none of the classes, which are numbers") from None
        (number,) = self.corrector._ids_of([name], "label", add=False, error=UnknownClass)
        if number >= self.corrector._known:
            raise UnknownClass(f"no class is called {text!r}")
        return name

    @property
    def train_prior(self) -> NDArray[np.float64]:
        """The training prior of its corrector."""
        return np.empty(0)

    # ---- rows

    def rows(self, n: int, P: Any, segments: Mapping[str, Sequence[Any]] | None) -> Rows:
        """Check the n rows of a call and number new names; P may be None."""
        if segments:
            raise ValueError(f"segments: {next(iter(segments))!r} was not declared; declared: ()")
        given = [] if P is None else list(P)
        if len(given) != n:
            raise InvalidPrediction(f"{n} ids for {len(given)} rows")
        checked = []
        for i, one in enumerate(given):
            try:
                checked.append(one if isinstance(one, Rows) else self.corrector._check_one(one))
            except InvalidPrediction as error:
                raise InvalidPrediction(f"row {i}: {error}") from None
        widest = max((one.ids.shape[1] for one in checked), default=1)
        ids = np.full((n, widest), -1, np.int32)
        rows = Rows(ids, np.zeros((n, widest)), np.empty(n, np.int32))
        for i, (one, row) in enumerate(zip(given, checked, strict=True)):
            k = int(row.ks[0])
            rows.ks[i], rows.P[i, :k] = k, row.P[0, :k]
            rows.ids[i, :k] = (
                row.ids[0, :k] if row is one
                else self.corrector._ids_of(list(one), "row", add=True, error=InvalidPrediction)
            )  # fmt: skip
        return rows

    def row(self, p: Any) -> list[Any]:
        """Return one row like the rows of a call."""
        return [p]

    def made(self, rows: Rows, blobs: NDArray[np.float32]) -> Rows:
        """Raise: rows of very many classes are corrected where they are learned."""
        raise ValueError("rows of very many classes that another corrector sent")

    def cut(self, rows: Rows, numbers: Sequence[int]) -> Rows:
        """Select rows."""
        return Rows(rows.ids[numbers], rows.P[numbers], rows.ks[numbers])

    def width_of(self, rows: Rows, i: int) -> int:
        """Upper bound in bytes of the row, sent row and receipt."""
        k = int(rows.ks[i])
        return 4 * (1 + 3 * k + 3 + 3 * (k + PROMOTED) + 3 * (k + 1))

    def raw(self, rows: Rows, i: int) -> bytes:
        """The first part of a row's blob."""
        return SparseBlob.raw(rows, i)

    def raw_of(self, blob: bytes) -> bytes:
        """Decode the row of a blob."""
        return blob[: 4 * SparseBlob(blob).raw_words]

    def given(self, rows: Rows, i: int) -> Given | None:
        """Return None: no segments are declared."""
        return None

    def blank(self, n: int) -> list[Any]:
        """Allocate the output of n rows."""
        return [None] * n

    def put(self, room: list[Any], numbers: Sequence[int] | None, sent: list[Any]) -> None:
        """Write the output of some rows, or of all."""
        if numbers is None:
            room[:] = sent
        else:
            for i, row in zip(numbers, sent, strict=True):
                room[i] = row

    # ---- labels

    def label(self, label: Any, id: Any) -> int:
        """Return the number of a class, numbering a new name."""
        try:
            return self.number(label)
        except UnknownClass as error:
            raise UnknownClass(f"label of {id!r}: {error}") from None

    def held(self, y: int) -> Any:
        """Return the class, as a snapshot stores the label."""
        return self.corrector._names_of([y])[0]

    def news(self, known: int | None, y: int) -> News:
        """The first label of a prediction counts."""
        return News(y, y, False) if known is None else News(None, known, known != y)

    # ---- the corrector

    def run(
        self,
        rows: Rows,
        labels: Sequence[JoinedLabel],
        explain: Sequence[Any] | None = None,
    ) -> Made:
        """Correct rows and learn labels, in stream order.

        ``explain`` has a label for each row, or None: of rows with one it is found out, when they
        are sent, which rank and probability it has, raw and sent, shape (rows with one, 4).
        """
        made, at = SparseMade([], [], []), 0
        for one in labels:
            self._process(rows, at, one.due, made, explain)
            at = max(at, one.due)
            self._learn(one, made)
        self._process(rows, at, len(rows.ks), made, explain)
        found = np.frombuffer(b"".join(made.found), "<f8").reshape(-1, 4)
        return Made(made.sent, made.blobs, None, None if explain is None else found)

    def _process(
        self, rows: Rows, first: int, last: int, made: SparseMade, explain: Sequence[Any] | None
    ) -> None:
        if first >= last:
            return
        cut = slice(first, last)
        model = self.corrector._model
        ids, P, rest, receipts = model.rows(rows.ids[cut], rows.P[cut], rows.ks[cut], True, True)
        for i, k in enumerate(rows.ks[cut].tolist()):
            n = int((ids[i] >= 0).sum())
            names = self.corrector._names_of(ids[i, :n].tolist())
            p = P[i, :n]
            made.sent.append(SparseRow(dict(zip(names, p.tolist(), strict=True)), float(rest[i])))
            made.blobs.append(
                SparseBlob.raw(rows, first + i) + n.to_bytes(4, "little")
                + ids[i, :n].astype("<i4").tobytes() + p.astype("<f8").tobytes()
                + np.array(rest[i], "<f8").tobytes()
                + receipts[i][:, [*range(k), -1]].astype("<f4").tobytes()
            )  # fmt: skip
            if explain is not None and (label := explain[first + i]) is not None:
                (y,) = self.corrector._ids_of([label], "label", add=False, error=UnknownClass)
                made.found.append(self._foretold(SparseBlob(made.blobs[-1]), y))

    def _learn(self, one: JoinedLabel, made: SparseMade) -> None:
        """Learn a label; record its rank and probability beside it."""
        model, y = self.corrector._model, np.array([one.y], np.int64)
        entry = one.entry
        if one.row is None and entry is None:
            model.learn(None, None, None, y, None)
            return
        blob = None
        if entry is not None:
            blob = SparseBlob(made.blobs[entry.at] if entry.at >= 0 else entry.blob)
            entry.scored = self._foretold(blob, one.y)
        row = blob if one.row is None else SparseBlob(one.row)
        assert row is not None
        ids, P = row.ids[None].astype(np.int32), row.P[None].copy()
        ks = np.array([ids.shape[1]], np.int32)
        known = None
        if one.row is None and not np.isnan(row.receipt).any():
            known = given_by(row.receipt[None].astype(np.float32), ids, ks, y)
        model.learn(ids, P, ks, y, known)

    def _foretold(self, blob: SparseBlob, y: int) -> bytes:
        """Rank and probability of a label, raw and sent, as 4 float64."""
        P = blob.P.tolist()
        raw = rank_of(blob.ids.tolist(), P, y) or (-1.0, unlisted(P, self.corrector.m))
        sent = rank_of(blob.sent_ids.tolist(), blob.sent_P.tolist(), y)
        if sent is None:
            ids = np.ascontiguousarray(blob.sent_ids, np.int32)
            sent = -1.0, blob.rest * self.corrector._model.tail_of(y, ids)
        return np.array([*raw, *sent], "<f8").tobytes()

    def uncertainty(self, sent: Sequence[SparseRow]) -> list[float]:
        """1 - (best - second best); the rest is the second best of a row with one class."""
        scores = []
        for row, rest in sent:
            best, second = heapq.nlargest(
                2, row.values() if len(row) > 1 else [*row.values(), rest]
            )
            scores.append(max(0.0, 1 - (best - second)))
        return scores

    def successor(self) -> Sparse:
        """Raise: there are no versions."""
        raise ValueError("a version of a classifier of very many classes")

    # ---- scores

    def new_judged(self) -> Judged:
        """Empty scores and an alarm without labels."""
        return Judged(SparseScores(), SparseScores(), Alarm())

    def judge(self, judged: Judged, pending: Sequence[Unscored]) -> None:
        """Score more labelled predictions."""
        found = np.frombuffer(b"".join([one.both for one in pending]), "<f8").reshape(-1, 2, 2)
        times = 1000 * np.array([one.time for one in pending], np.float64)  # None becomes NaN
        raw, sent = (
            scores.add_checked(found[:, side, 0], found[:, side, 1])
            for side, scores in enumerate((judged.raw, judged.sent))
        )
        judged.alarm.learn_scored(raw, sent, times)

    def copied(self, judged: Judged) -> Judged:
        """An independent copy."""
        raw, sent, alarm = judged
        none = SparseScores()
        return Judged(raw + none, sent + none, Alarm.from_bytes(alarm.to_bytes()))

    # ---- what a snapshot holds

    def names_from(self, n: int) -> tuple[Any, ...]:
        """Names of the classes numbered from ``n`` on."""
        return () if self.numbered else tuple(self.corrector.names_of(range(n, self.n_named)))

    @property
    def n_named(self) -> int:
        """How many classes have a name."""
        return 0 if self.numbered else self.corrector.n_classes

    def fits(self, lane: SentLane) -> bool:
        """Whether rows are of very many classes; names that are new have numbers from now on."""
        if lane.named and not self.numbered:
            self.corrector.ids_of(lane.named)
        return not lane.classes and not (lane.named and self.numbered)

    def told_row(self, row: bytes) -> dict[Any, float]:
        """A row that a label brings, by name."""
        blob = SparseBlob(row)
        names = self.corrector._names_of(blob.ids.tolist())
        return dict(zip(names, blob.P.tolist(), strict=True))

    def load_rows(self, lane: SentLane) -> list[Rows]:
        """Rows of a sent batch's lane as those of a call."""
        rows = []
        for blob in self._loaded(lane.rows):
            one = SparseBlob(blob)
            k = len(one.ids)
            ids, P = np.array(one.ids[None], np.int32), np.array(one.P[None])
            rows.append(Rows(ids, P, np.array([k], np.int32)))
        return rows

    def load_judged(self, raw: NDArray[Any], sent: NDArray[Any], alarm: bytes | None) -> Judged:
        """From their sums."""
        if alarm is None:
            raise ValueError("no alarm")
        sides = SparseScores.from_sums(raw), SparseScores.from_sums(sent)
        return Judged(*sides, Alarm.from_bytes(alarm))

    def require_sent(self, lane: SentLane) -> None:
        """ValueError where rows that another process sent are none."""
        for _ in self._loaded(lane.rows):
            pass

    def load_blobs(self, data: NDArray[Any], of: Sparse) -> list[bytes]:
        """Blobs, padded to the widest: float32 of shape (n, words)."""
        return list(self._loaded(data))

    def _loaded(self, data: NDArray[Any]) -> Iterator[bytes]:
        if data.dtype != np.float32:
            raise ValueError("recent predictions")
        most, known = data.shape[1], self.corrector._known
        for row in data:
            words = row.view(np.int32)
            k = int(words[0]) if most else 0
            at = 1 + 3 * k
            n = int(words[at]) if 0 < k <= MOST_LISTED and at < most else 0
            size = at + 3 + 3 * n + 3 * (k + 1)
            if not 0 < k <= n <= k + PROMOTED or size > most:
                raise ValueError("the size of recent predictions")
            blob = SparseBlob(words[:size].astype("<i4").tobytes())
            receipt, most_p = blob.receipt, 1 + TOLERANCE
            if not (
                _fine(blob.ids, blob.P, known)
                and _fine(blob.sent_ids, blob.sent_P, known)
                and 0 <= blob.rest <= most_p
                and (((receipt >= 0) & (receipt <= most_p)) | np.isnan(receipt)).all()
            ):
                raise ValueError("recent predictions")
            yield words[:size].astype("<i4").tobytes()

    def load_pending(self, one: Unscored) -> Unscored:
        """A labelled prediction."""
        found = np.frombuffer(one.both, "<f8") if len(one.both) == 32 else np.array([np.nan])
        ranks, p = found[::2], found[1::2]
        if not (ranks >= -1).all() or not (ranks <= MOST_LISTED + PROMOTED).all():
            raise ValueError("scores")
        if not ((p >= 0) & (p <= 1.001)).all():
            raise ValueError("scores")
        return one

    def load_known(self, known: Any) -> int | None:
        """The label of a recent prediction."""
        if known is None:
            return None
        if type(known) is not int or not 0 <= known < self.corrector._known:
            raise ValueError("the label of a recent prediction")
        return known


def _fine(ids: NDArray[np.int32], P: NDArray[np.float64], known: int) -> bool:
    """Whether these may be classes and their probabilities."""
    classes = ((ids >= 0) & (ids < known)).all() and len(np.unique(ids)) == len(ids)
    return bool(classes and (P >= 0).all() and P.sum() <= 1 + TOLERANCE)
