"""Sparse: the learner's adapter of a `SparseCorrector`."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.learner.kinds import Given, JoinedLabel, Judged, Made, Unscored
from stream_can.learner.lane import Name
from stream_can.learner.recent import first_counts
from stream_can.learner.sent import SentLane
from stream_can.method.receipts import require_probabilities, require_size
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
    def raw(rows: NumberedRows, i: int) -> bytes:
        """Encode the first part for a row of a call."""
        k = int(rows.ks[i])
        return _encoded(rows.ids[i, :k], rows.P[i, :k])

    @staticmethod
    def sent(ids: Any, P: Any, rest: float, receipt: NDArray[np.float32]) -> bytes:
        """Encode what is behind the first part: the row that was sent, and its receipt."""
        return _encoded(ids, P) + np.array(rest, "<f8").tobytes() + receipt.astype("<f4").tobytes()


def _encoded(ids: Any, P: Any) -> bytes:
    """Number of classes, the classes, and their probabilities."""
    return (
        len(ids).to_bytes(4, "little") + np.asarray(ids, "<i4").tobytes()
        + np.asarray(P, "<f8").tobytes()
    )  # fmt: skip


class NumberedRows(NamedTuple):
    """The rows of a call, see `stream_can.sparse.corrector.Rows`."""

    ids: NDArray[np.int32]
    P: NDArray[np.float64]
    ks: NDArray[np.int32]
    sent_blobs: list[bytes] | None = None
    """Blobs of rows that were corrected elsewhere."""


class NamedRow(NamedTuple):
    """A checked row by name."""

    names: list[Any]
    P: NDArray[np.float64]


class Lookup:
    """Checks rows and labels by the classes of a corrector and numbers no new ones: for a process
    that corrects by a state and does not learn."""

    def __init__(self, corrector: SparseCorrector) -> None:
        self._corrector = corrector
        self.numbered = corrector.names is None

    def checked(self, row: Mapping[Any, float]) -> NamedRow:
        """Check a row; InvalidPrediction where it is invalid."""
        return NamedRow([*row], self._corrector._check_one(row).P[0])

    def number(self, name: Any) -> int:
        """The number of a class; UnknownClass where there can be none of this name."""
        (number,) = self._corrector._ids_of([name], "label", add=False, error=UnknownClass)
        return number

    def named(self, text: str) -> Any:
        """The class of a text, which may be a new name; UnknownClass where there can be none."""
        try:
            name: Any = int(text) if self.numbered else text
        except ValueError:
            raise UnknownClass(f"{text!r} is none of the classes, which are numbers") from None
        self.number(name)
        return name

    def known(self, text: str) -> Any:
        """Find a class by its name as text; UnknownClass where no row or label had it."""
        name = self.named(text)
        if self.number(name) >= self._corrector._known:
            raise UnknownClass(f"no class is called {text!r}")
        return name


class SparseOutput(NamedTuple):
    """Output of a run as it grows."""

    sent: list[SparseRow]
    blobs: list[bytes]
    ranks: list[bytes]
    """Rank and probability of the label of each row, where they are wanted."""


def _float64(words: NDArray[np.int32], at: int, n: int) -> NDArray[np.float64]:
    return np.frombuffer(words[at : at + 2 * n].tobytes(), "<f8")


class Sparse:
    """Adapter of a `SparseCorrector`. A row is {class: probability}; a label is its number."""

    classes: tuple[Any, ...] = ()
    segments: tuple[str, ...] = ()
    sets: float | None = None
    makes_sets = passes = corrects_alone = False
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
    def lookup(self) -> Lookup:
        """What checks rows and labels without numbering new classes."""
        return Lookup(self.corrector)

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
        return self.lookup.known(text)

    @property
    def train_prior(self) -> NDArray[np.float64]:
        """The training prior of its corrector."""
        return np.empty(0)

    # ---- rows

    def rows(self, n: int, P: Any, segments: Mapping[str, Sequence[Any]] | None) -> NumberedRows:
        """Check the n rows of a call and number new names; P may be None."""
        if segments:
            raise ValueError(f"segments: {next(iter(segments))!r} was not declared; declared: ()")
        unchecked = [] if P is None else list(P)
        if len(unchecked) != n:
            raise InvalidPrediction(f"{n} ids for {len(unchecked)} rows")
        checked = []
        for i, row in enumerate(unchecked):
            try:
                checked.append(row if isinstance(row, Rows) else self.corrector._check_one(row))
            except InvalidPrediction as error:
                raise InvalidPrediction(f"row {i}: {error}") from None
        widest = max((row.ids.shape[1] for row in checked), default=1)
        ids = np.full((n, widest), -1, np.int32)
        rows = NumberedRows(ids, np.zeros((n, widest)), np.empty(n, np.int32))
        for i, (plain, checked_row) in enumerate(zip(unchecked, checked, strict=True)):
            k = int(checked_row.ks[0])
            rows.ks[i], rows.P[i, :k] = k, checked_row.P[0, :k]
            rows.ids[i, :k] = (
                checked_row.ids[0, :k] if checked_row is plain
                else self.corrector._ids_of(list(plain), "row", add=True, error=InvalidPrediction)
            )  # fmt: skip
        return rows

    def row(self, p: Any) -> list[Any]:
        """Return one row like the rows of a call."""
        return [p]

    def made(self, rows: NumberedRows, blobs: NDArray[np.float32]) -> NumberedRows:
        """Mark the rows of a call as corrected elsewhere."""
        return rows._replace(sent_blobs=list(self._loaded(blobs, self.corrector._known)))

    def cut(self, rows: NumberedRows, numbers: Sequence[int]) -> NumberedRows:
        """Select rows."""
        sent_blobs = None if rows.sent_blobs is None else [rows.sent_blobs[i] for i in numbers]
        return NumberedRows(rows.ids[numbers], rows.P[numbers], rows.ks[numbers], sent_blobs)

    def width_of(self, rows: NumberedRows, i: int) -> int:
        """Upper bound in bytes of the row, sent row and receipt."""
        k = int(rows.ks[i])
        return 4 * (1 + 3 * k + 3 + 3 * (k + PROMOTED) + 3 * (k + 1))

    def raw(self, rows: NumberedRows, i: int) -> bytes:
        """The first part of a row's blob."""
        return SparseBlob.raw(rows, i)

    def raw_of(self, blob: bytes) -> bytes:
        """Decode the row of a blob."""
        return blob[: 4 * SparseBlob(blob).raw_words]

    def given(self, rows: NumberedRows, i: int) -> Given | None:
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

    news = staticmethod(first_counts)

    # ---- the corrector

    def given_rows(self, P: Any) -> list[NamedRow]:
        """Check rows that are to be corrected without learning, {class: probability} each."""
        lookup = self.lookup
        return [lookup.checked(row) for row in P]

    def corrected(
        self, raw: Sequence[NamedRow], segments: object
    ) -> tuple[list[SparseRow], list[NDArray[np.float32]], None]:
        """Correct rows without learning: sent rows and receipts; there are no sets."""
        sent, receipts = list[SparseRow](), list[NDArray[np.float32]]()
        corrector = self.corrector
        for names, p in raw:
            numbers = corrector._ids_of(names, "row", add=False, error=InvalidPrediction)
            k = np.array([len(names)], np.int32)
            ids, P, rests, receipt = corrector._model.rows(
                np.array([numbers], np.int32), p[None], k, False, True
            )
            all_names = names + corrector._names_of(ids[0][ids[0] >= 0].tolist()[len(names) :])
            better, rest = dict(zip(all_names, P[0].tolist(), strict=False)), float(rests[0])
            if self.passes:
                better, rest = dict(zip(names, p.tolist(), strict=True)), 1 - float(p.sum())
            sent.append(SparseRow(better, max(0.0, rest)))
            receipts.append(receipt[0])
        return sent, receipts, None

    def told(
        self, name: Name, raw: Sequence[NamedRow], sent: Sequence[SparseRow],
        receipts: Sequence[NDArray[np.float32]],
    ) -> SentLane:  # fmt: skip
        """Encode corrected rows for the learner; classes with names are numbered as they appear in
        the rows, see :meth:`adopted`."""
        numbers: dict[Any, int] = {}
        blobs = []
        for (names, p), (better, rest), receipt in zip(raw, sent, receipts, strict=True):
            raw_ids, sent_ids = (
                [*classes]
                if self.numbered
                else [numbers.setdefault(n, len(numbers)) for n in classes]
                for classes in (names, better)
            )
            blobs.append(
                _encoded(raw_ids, p) + SparseBlob.sent(sent_ids, [*better.values()], rest, receipt)
            )
        most = max(map(len, blobs), default=4)
        data = b"".join([blob.ljust(most, b"\0") for blob in blobs])
        return SentLane(name, (), np.frombuffer(data, "<f4").reshape(-1, most // 4), (*numbers,))

    def listed(self, lane: SentLane, i: int) -> tuple[list[float], list[float], list[Any]]:
        """A row of a lane and the row that was sent, as lists, and their classes."""
        (blob,) = map(SparseBlob, self._loaded(lane.rows[[i]], self.corrector._known))
        names = self.corrector._names_of(blob.sent_ids.tolist())
        return blob.P.tolist(), blob.sent_P.tolist(), names

    def run(
        self,
        rows: NumberedRows,
        labels: Sequence[JoinedLabel],
        explain: Sequence[Any] | None = None,
    ) -> Made:
        """Correct rows and learn labels, in stream order.

        ``explain`` has a label for each row, or None: of rows with one it is found out, when they
        are sent, which rank and probability it has, raw and sent, shape (rows with one, 4).
        """
        output, at = SparseOutput([], [], []), 0
        for label in labels:
            self._process(rows, at, label.due, output, explain)
            at = max(at, label.due)
            self._learn(label, output)
        self._process(rows, at, len(rows.ks), output, explain)
        ranks = np.frombuffer(b"".join(output.ranks), "<f8").reshape(-1, 4)
        return Made(output.sent, output.blobs, None, None if explain is None else ranks)

    def _process(
        self, rows: NumberedRows, first: int, last: int, output: SparseOutput,
        explain: Sequence[Any] | None,
    ) -> None:  # fmt: skip
        if first >= last:
            return
        cut = slice(first, last)
        model = self.corrector._model
        ids, P, rests, receipts = model.rows(rows.ids[cut], rows.P[cut], rows.ks[cut], True, True)
        for i, k in enumerate(rows.ks[cut].tolist()):
            n = int((ids[i] >= 0).sum())
            numbers, p, rest = ids[i, :n], P[i, :n], float(rests[i])
            if rows.sent_blobs is None:
                if self.passes:
                    numbers, p = rows.ids[first + i, :k], rows.P[first + i, :k]
                    rest = max(0.0, 1 - float(p.sum()))
                receipt = receipts[i][:, [*range(k), -1]]
                output.blobs.append(
                    SparseBlob.raw(rows, first + i) + SparseBlob.sent(numbers, p, rest, receipt)
                )
            else:
                output.blobs.append(rows.sent_blobs[first + i])
                blob = SparseBlob(output.blobs[-1])
                numbers, p, rest = blob.sent_ids, blob.sent_P, blob.rest
            names = self.corrector._names_of(numbers.tolist())
            output.sent.append(SparseRow(dict(zip(names, p.tolist(), strict=True)), rest))
            if explain is not None and (label := explain[first + i]) is not None:
                (y,) = self.corrector._ids_of([label], "label", add=False, error=UnknownClass)
                output.ranks.append(self._rank_and_probability(SparseBlob(output.blobs[-1]), y))

    def _learn(self, label: JoinedLabel, output: SparseOutput) -> None:
        """Learn a label; record its rank and probability beside it."""
        model, y = self.corrector._model, np.array([label.y], np.int64)
        entry = label.entry
        if label.row is None and entry is None:
            model.learn(None, None, None, y, None)
            return
        blob = None
        if entry is not None:
            blob = SparseBlob(output.blobs[entry.at] if entry.at >= 0 else entry.blob)
            entry.scored = self._rank_and_probability(blob, label.y)
        row = blob if label.row is None else SparseBlob(label.row)
        assert row is not None
        ids, P = row.ids[None].astype(np.int32), row.P[None].copy()
        ks = np.array([ids.shape[1]], np.int32)
        known = None
        if label.row is None and not np.isnan(row.receipt).any():
            known = given_by(row.receipt[None].astype(np.float32), ids, ks, y)
        model.learn(ids, P, ks, y, known)

    def _rank_and_probability(self, blob: SparseBlob, y: int) -> bytes:
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
        ranked = np.frombuffer(b"".join([row.both for row in pending]), "<f8").reshape(-1, 2, 2)
        times = 1000 * np.array([row.time for row in pending], np.float64)  # None becomes NaN
        raw, sent = (
            scores.add_checked(ranked[:, side, 0], ranked[:, side, 1])
            for side, scores in enumerate((judged.raw, judged.sent))
        )
        judged.alarm.learn_scored(raw, sent, times)

    def copied(self, judged: Judged) -> Judged:
        """An independent copy."""
        raw, sent, alarm = judged
        none = SparseScores()
        return Judged(raw + none, sent + none, alarm.copy())

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

    def adopted(self, lane: SentLane) -> tuple[SentLane, NDArray[np.bool_]]:
        """The rows of another process with the classes numbered as here, where new names get
        numbers; and whether each is one of these: there may be no room for its names."""
        is_known = np.ones(len(lane.rows), np.bool_)
        if self.numbered:
            return lane, is_known
        of = np.full(len(lane.named), -1, np.int32)
        for i, name in enumerate(lane.named):
            with contextlib.suppress(UnknownClass):  # no room
                of[i] = self.number(name)
        rows = lane.rows.copy()
        for i, words in enumerate(rows.view(np.int32)):
            k = int(words[0])
            at = 1 + 3 * k
            for ids in (words[1 : 1 + k], words[at + 1 : at + 1 + int(words[at])]):
                ids[:] = of[ids]
                is_known[i] &= (ids >= 0).all()
        return lane._replace(rows=rows[is_known], named=()), is_known

    def load_rows(self, lane: SentLane) -> list[Rows]:
        """Rows of a sent batch's lane as those of a call."""
        rows = []
        for data in self._loaded(lane.rows, self.corrector._known):
            blob = SparseBlob(data)
            k = len(blob.ids)
            ids, P = np.array(blob.ids[None], np.int32), np.array(blob.P[None])
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
        names = set(map(shared_name, lane.named))
        if lane.classes or (lane.named and self.numbered) or len(names) < len(lane.named):
            raise ValueError("the classes of recent predictions")
        for _ in self._loaded(lane.rows, self.corrector.m if self.numbered else len(names)):
            pass

    def load_blobs(self, data: NDArray[Any], of: Sparse) -> list[bytes]:
        """Blobs, padded to the widest: float32 of shape (n, words)."""
        return list(self._loaded(data, self.corrector._known))

    def _loaded(self, data: NDArray[Any], known: int) -> Iterator[bytes]:
        """Check and cut blobs whose classes are numbers below ``known``."""
        if data.dtype != np.float32:
            raise ValueError("recent predictions")
        most = data.shape[1]
        for i, row in enumerate(data):
            words = row.view(np.int32)
            k = int(words[0]) if most else 0
            at = 1 + 3 * k
            n = int(words[at]) if 0 < k <= MOST_LISTED and at < most else 0
            begin, length = at + 3 + 3 * n, 3 * (k + 1)
            size = begin + length
            if not 0 < k <= n <= k + PROMOTED or begin > most:
                raise ValueError("the size of recent predictions")
            require_size(row[None, begin:size], (1, length))
            blob = SparseBlob(words[:size].astype("<i4").tobytes())
            require_probabilities(blob.receipt[None], first=i)
            if not (
                _plausible(blob.ids, blob.P, known)
                and _plausible(blob.sent_ids, blob.sent_P, known)
                and 0 <= blob.rest <= 1 + TOLERANCE
            ):
                raise ValueError("recent predictions")
            yield words[:size].astype("<i4").tobytes()

    def load_pending(self, unscored: Unscored) -> Unscored:
        """A labelled prediction."""
        ranked = (
            np.frombuffer(unscored.both, "<f8") if len(unscored.both) == 32 else np.array([np.nan])
        )
        ranks, p = ranked[::2], ranked[1::2]
        if not (ranks >= -1).all() or not (ranks <= MOST_LISTED + PROMOTED).all():
            raise ValueError("scores")
        if not ((p >= 0) & (p <= 1.001)).all():
            raise ValueError("scores")
        return unscored

    def load_known(self, known: Any) -> int | None:
        """The label of a recent prediction."""
        if known is None:
            return None
        if type(known) is not int or not 0 <= known < self.corrector._known:
            raise ValueError("the label of a recent prediction")
        return known


def shared_name(name: Any) -> str:
    """A name that another process gave; ValueError where it is none."""
    if not isinstance(name, str):
        raise ValueError("the name of a class")
    name.encode()
    return name


def _plausible(ids: NDArray[np.int32], P: NDArray[np.float64], known: int) -> bool:
    """Whether these may be classes and their probabilities."""
    classes = ((ids >= 0) & (ids < known)).all() and len(np.unique(ids)) == len(ids)
    return bool(classes and (P >= 0).all() and P.sum() <= 1 + TOLERANCE)
