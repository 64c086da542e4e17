"""Dense: the learner's adapter of a `Corrector`. Rows are vectors, labels classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector, Played
from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.learner.kinds import Given, JoinedLabel, Judged, Made, Unscored
from stream_can.learner.lane import Name
from stream_can.learner.recent import Recent, first_counts
from stream_can.learner.sent import SentLane
from stream_can.method.checks import bad_rows
from stream_can.method.promise import names_in_sets
from stream_can.method.receipts import (
    ANY_ROWS,
    NOT_FAIR,
    OF_ROW,
    TAIL,
    gave_all,
    none_known,
    require_probabilities,
    require_size,
    size,
)
from stream_can.method.rows import as_float64
from stream_can.method.segments import Texts
from stream_can.method.state import bytes_kept
from stream_can.method.uncertainty import margin
from stream_can.scores import Scores
from stream_can.trust.alarm import Alarm

__all__ = ["DeclaredClasses", "Dense"]

BYTES_OF_CLASS = 500
"""Of its name and of what the loop works in, beside half as much as the arrays: measured, within
11 %."""

Array = NDArray[np.float64]


class DenseRows(NamedTuple):
    """Rows with their values of the declared segments."""

    raw: Array
    texts: Texts | None
    sent_blobs: NDArray[np.float32] | None = None
    """What another corrector made, see :attr:`SentLane.rows`."""


class DeclaredClasses:
    """Declared classes; every row has a probability for each."""

    classes: tuple[Any, ...]
    n_named = 0
    numbering = lookup = None

    def names_from(self, n: int) -> tuple[Any, ...]:
        """Return nothing: all classes are declared."""
        return ()

    def fits(self, lane: SentLane) -> bool:
        """Whether the rows of a sent batch have these classes."""
        return lane.classes == self.classes

    def given_rows(self, P: Any) -> Array:
        """Rows that are to be corrected without learning, shape (n, m)."""
        return np.ascontiguousarray(P, np.float64)

    def told(self, name: Name, raw: Array, sent: Array, receipts: NDArray[np.float32]) -> SentLane:
        """Encode corrected rows for the learner."""
        words = [np.ascontiguousarray(part).view(np.float32) for part in (raw, sent)]
        return SentLane(name, self.classes, np.concatenate([*words, receipts], axis=1))

    def listed(self, lane: SentLane, i: int) -> tuple[list[float], list[float], list[Any]]:
        """A row of a lane and the row that was sent, as lists, and their classes."""
        lane = lane._replace(rows=lane.rows[[i]])
        return lane.raw[0].tolist(), lane.sent[0].tolist(), [*lane.classes]

    def told_row(self, row: bytes) -> Array:
        """Decode a row that came with a label."""
        return np.frombuffer(row)

    def load_rows(self, lane: SentLane) -> Array:
        """Read the rows of a sent batch's lane as rows of a call."""
        return lane.raw


class Dense(DeclaredClasses):
    """Adapter of a `Corrector`."""

    random_requests = 0.5
    passes = False
    corrects_alone = True

    described = "rows of one label"
    has_models = True

    def __init__(self, corrector: Corrector) -> None:
        self.corrector = corrector
        self.classes, self.segments, self.sets = (
            corrector.classes, corrector.segments, corrector.sets,
        )  # fmt: skip
        self.makes_sets = self.sets is not None
        m = len(self.classes)
        arrays = bytes_kept(m, corrector.paths, len(self.segments))
        self.nbytes = arrays * 3 // 2 + BYTES_OF_CLASS * m
        self.both = 16 * m
        self.width = self.both + 4 * size(m, corrector.n_sent, sets=self.sets is not None)

    @property
    def train_prior(self) -> Array:
        """The training prior of its corrector."""
        return self.corrector.train_prior

    # ---- rows

    def rows(self, n: int, P: Any, segments: Mapping[str, Sequence[Any]] | None) -> DenseRows:
        """Check the n rows of a call and their column values; P may be None."""
        m = len(self.classes)
        if P is None and n == 0 and segments is None:
            return DenseRows(np.empty((0, m)), None)
        raw = np.empty((0, m)) if P is None else as_float64(P, self.corrector._index)
        texts = None if segments is None else self.corrector._texts(segments)
        fits = raw.ndim == 2 and raw.shape[1] == m and not bad_rows(raw)
        if fits and len(raw) != n:
            raise InvalidPrediction(f"{n} ids for {len(raw)} rows")
        if not fits or any(texts_ is not None and len(texts_) != n for texts_ in texts or ()):
            self.corrector.correct_many(raw, segments=segments)  # raises with the reason
        return DenseRows(raw, texts)

    def row(self, p: Any) -> Array:
        """Check one row; return it like the rows of a call."""
        raw = as_float64(p, self.corrector._index)
        if raw.shape != (len(self.classes),):
            self.corrector.correct_one(raw)  # raises with the reason
        return raw[None]

    def made(self, rows: DenseRows, blobs: NDArray[np.float32]) -> DenseRows:
        """Mark the rows of a call as corrected elsewhere."""
        return rows._replace(sent_blobs=blobs)

    def cut(self, rows: DenseRows, numbers: Sequence[int]) -> DenseRows:
        """Select rows."""
        texts, sent_blobs = rows.texts, rows.sent_blobs
        if texts is not None:
            texts = [None if column is None else [column[i] for i in numbers] for column in texts]
        if sent_blobs is not None:
            sent_blobs = sent_blobs[numbers]
        return DenseRows(rows.raw[numbers], texts, sent_blobs)

    def width_of(self, rows: DenseRows, i: int) -> int:
        """Bytes of a row's blob; the same for all rows."""
        return self.width

    def raw(self, rows: DenseRows, i: int) -> bytes:
        """The first part of a row's blob."""
        row: Array = rows.raw[i]
        return row.tobytes()

    def raw_of(self, blob: bytes) -> bytes:
        """Decode the row of a blob."""
        return blob[: 8 * len(self.classes)]

    def given(self, rows: DenseRows, i: int) -> Given | None:
        """Column values of one row."""
        if rows.texts is None:
            return None
        return tuple([None if column is None else column[i] for column in rows.texts])

    def blank(self, n: int) -> Array:
        """Allocate the output of n rows."""
        return np.empty((n, len(self.classes)))

    def put(self, room: Array, numbers: Sequence[int] | None, sent: Array) -> None:
        """Write the output of some rows, or of all."""
        room[slice(None) if numbers is None else numbers] = sent

    # ---- labels

    def label(self, label: Any, id: Any) -> int:
        """Return the index of a class."""
        try:
            return self.corrector._index[label]
        except UnknownClass:
            why = f"label of {id!r}: {label!r} is none of the classes"
            raise UnknownClass(why) from None

    def held(self, y: int) -> Any:
        """Return the class, as a snapshot stores the label."""
        return self.classes[y]

    news = staticmethod(first_counts)

    # ---- the corrector

    def corrected(
        self, raw: Array, segments: Mapping[str, Sequence[Any]] | None
    ) -> tuple[Array, NDArray[np.float32], list[list[Any]] | None]:
        """Correct rows without learning: sent rows, receipts, prediction sets."""
        sent, receipts = self.corrector.correct_many(raw, receipt=True, segments=segments)
        sets = self._names_in_sets(sent, receipts)
        return raw if self.passes else sent, receipts, sets

    def _names_in_sets(self, sent: Array, receipts: NDArray[np.float32]) -> list[list[Any]] | None:
        if self.sets is None or not len(sent):
            return None
        inside = self.corrector.sets_of(sent, receipts)
        return names_in_sets(inside, sent.astype(np.float32), self.classes)

    def process_one(self, p: Any) -> tuple[Array, bytes]:
        """Check and correct a row without segments: the row that is sent, and its blob."""
        raw = as_float64(p, self.corrector._index)
        sent, receipt = self.corrector.process_one(raw, receipt=True)
        if self.passes:
            sent = raw.copy()
        return sent, raw.tobytes() + sent.tobytes() + receipt.tobytes()

    def run(self, rows: DenseRows, labels: Sequence[JoinedLabel], explain: object = None) -> Made:
        """Correct rows and learn labels, in stream order. Explained are the rows of each path,
        shape (number of paths, n, m)."""
        raw, corrector, paths = rows.raw, self.corrector, None
        if rows.sent_blobs is not None:
            return self._observe(rows, labels)
        if explain:
            played = self._play(rows, labels, explain=True)
            sent, receipts, paths = played.rows, played.receipts, played.paths
        elif not labels:
            segments = _named(self.segments, rows.texts)
            sent, receipts = corrector.process_many(raw, receipt=True, segments=segments)
        elif len(labels) == 1 and not len(raw):
            self._learn_one(labels[0])
            return Made(raw, [], None)
        else:
            sent, receipts, _ = self._play(rows, labels)
        assert receipts is not None
        sets = self._names_in_sets(sent, receipts)
        if self.passes:
            sent = raw
        return Made(sent, (raw, sent, receipts), sets, paths)

    def _observe(self, rows: DenseRows, labels: Sequence[JoinedLabel]) -> Made:
        """Observe rows that were corrected elsewhere, and learn the labels between them."""
        assert rows.sent_blobs is not None
        m, data = len(self.classes), self._of_this_width(rows.sent_blobs)
        if labels:
            self._play(rows, labels, data)
        else:
            self.corrector.observe_many(rows.raw, segments=_named(self.segments, rows.texts))
        sent = np.ascontiguousarray(data[:, 2 * m : 4 * m]).view(np.float64)
        return Made(sent, (data,), None)

    def _of_this_width(self, blobs: NDArray[np.float32]) -> NDArray[np.float32]:
        """What another corrector made; receipts of another size become unknown ones."""
        if 4 * blobs.shape[1] == self.width:
            return np.ascontiguousarray(blobs)
        data = np.full((len(blobs), self.width // 4), np.nan, np.float32)
        data[:, : self.both // 4] = blobs[:, : self.both // 4]
        return data

    def _learn_one(self, joined: JoinedLabel) -> None:
        """Learn a single label without rows: the same bits, in less time."""
        y, entry, row, values = joined.y, joined.entry, joined.row, joined.given
        corrector = self.corrector
        label, m = self.classes[y], len(self.classes)
        if row is not None:
            p = np.frombuffer(row)
            corrector.learn_one(p, label, segments=_values(self.segments, values))
        elif entry is None:
            corrector.learn_one(None, label)
        else:
            receipt = np.frombuffer(entry.blob, np.float32, offset=16 * m)
            if not entry.fair and self.sets is not None:
                receipt = receipt.copy()
                receipt[OF_ROW] = NOT_FAIR
            segments = _values(self.segments, entry.columns)
            p = np.frombuffer(entry.blob, np.float64, m)
            corrector.learn_one(p, label, receipt=receipt, segments=segments)

    def _play(
        self,
        rows: DenseRows,
        labels: Sequence[JoinedLabel],
        sent_blobs: NDArray[np.float32] | None = None,
        *,
        explain: bool = False,
    ) -> Played:
        """Play rows and labels; return the corrected rows and their receipts.

        ``made`` is what another corrector made of the rows: then no receipts are made.
        """
        raw, texts, _ = rows
        corrector = self.corrector
        m, n_sent, sets = len(self.classes), corrector.n_sent, self.sets is not None
        ys = np.array([label.y for label in labels], np.int64)
        due = np.array([label.due for label in labels], np.int64)
        known = none_known(len(labels), n_sent, sets=sets)
        # Labels of rows that came with them, of this run's, and of rows with a receipt.
        with_row, in_run, with_receipt = list[int](), list[int](), list[int]()
        places, blobs, entries = list[int](), list[bytes](), list[Recent]()
        for i, label in enumerate(labels):
            entry = label.entry
            if label.row is not None:
                with_row.append(i)
            elif entry is None:
                continue
            elif (at := entry.at) >= 0 and sent_blobs is None:
                in_run.append(i)
                places.append(at)
            else:
                with_receipt.append(i)
                entries.append(entry)
                blobs.append(
                    entry.blob if sent_blobs is None or at < 0 else sent_blobs[at].tobytes()
                )
        first, P = len(with_row) + len(with_receipt), raw
        of = np.full(len(labels), -1, np.int64)
        of[with_row + with_receipt] = np.arange(first)
        of[in_run] = first + np.array(places, np.int64)
        if with_receipt:
            data = np.frombuffer(b"".join(blobs), np.float32).reshape(len(with_receipt), -1)
            P = np.concatenate([np.ascontiguousarray(data[:, : 2 * m]).view(np.float64), P])
            of_receipts = gave_all(data[:, 4 * m :], ys[with_receipt], n_sent, sets=sets)
            if sets:
                of_receipts[[not entry.fair for entry in entries], OF_ROW] = NOT_FAIR
            known[with_receipt] = of_receipts
        if with_row:
            came = b"".join([labels[i].row or b"" for i in with_row])
            P = np.concatenate([np.frombuffer(came).reshape(len(with_row), m), P])
        segments = None
        if names := self.segments:
            values = [labels[i].given for i in with_row] + [entry.columns for entry in entries]
            segments = {
                name: [None if row is None else row[k] for row in values]
                + _column(texts, k, len(raw))
                for k, name in enumerate(names)
            }
        return corrector.play(
            P, ys, of, due, first=first, known=known, receipt=sent_blobs is None, segments=segments,
            explain=explain,
        )  # fmt: skip

    def uncertainty(self, sent: Array) -> list[float]:
        """1 - (best - second best)."""
        scores: list[float] = margin(sent).tolist() if len(sent) else []
        return scores

    def successor(self) -> Dense:
        """The adapter with which a new version of the classifier starts."""
        return Dense(self.corrector.successor())

    # ---- scores

    def new_judged(self) -> Judged:
        """Empty scores and an alarm without labels."""
        return Judged(Scores(), Scores(), Alarm())

    def judge(self, judged: Judged, pending: Sequence[Unscored]) -> None:
        """Score more labelled predictions."""
        m = len(self.classes)
        pairs = np.frombuffer(b"".join([row.both for row in pending])).reshape(len(pending), 2, m)
        P, sent = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        y = np.array([row.y for row in pending], np.int64)
        times = 1000 * np.array([row.time for row in pending], np.float64)  # None becomes NaN
        raw_scores, sent_scores = judged.raw.add_checked(P, y), judged.sent.add_checked(sent, y)
        judged.alarm.learn_scored(raw_scores, sent_scores, times)

    def copied(self, judged: Judged) -> Judged:
        """An independent copy."""
        raw, sent, alarm = judged
        return Judged(raw + Scores(), sent + Scores(), alarm.copy())

    # ---- what a snapshot holds

    def load_judged(self, raw: NDArray[Any], sent: NDArray[Any], alarm: bytes | None) -> Judged:
        """Restore scores from their sums."""
        if alarm is None:
            raise ValueError("no alarm")
        return Judged(_scores(raw), _scores(sent), Alarm.from_bytes(alarm))

    def require_sent(self, lane: SentLane) -> None:
        """ValueError where rows that another process sent are none, whatever their classes."""
        n, m, receipts = len(lane.rows), len(lane.classes), lane.receipts
        if m < 1:
            raise ValueError("rows of no classes")
        layouts = {
            sets for r in ANY_ROWS for sets in (False, True)
            if receipts.shape[1] == size(m, r, sets=sets)
        }  # fmt: skip
        if not layouts:
            sets = self.sets is not None
            require_size(receipts, (n, size(m, self.corrector.n_sent, sets=sets)))
        rows = np.ascontiguousarray(lane.rows[:, : 4 * m]).view(np.float64)
        require_rows(rows.reshape(2 * n, m))
        has_sets = self.sets is not None and True in layouts
        require_probabilities(receipts, tail=TAIL if has_sets else 0)

    def load_blobs(self, data: NDArray[Any], of: Dense) -> list[bytes]:
        """Restore rows, sent rows and receipts, float32 of shape (n, width / 4) of the adapter
        ``of``."""
        n, m = len(data), len(self.classes)
        if data.dtype != np.float32 or data.shape[1] < 4 * m:
            raise ValueError("the size of recent predictions")
        if data.shape[1] != of.width // 4:  # stored under other settings
            stored, data = data, np.full((n, of.width // 4), np.nan, np.float32)
            data[:, : 4 * m] = stored[:, : 4 * m]
        rows = np.ascontiguousarray(data[:, : 4 * m]).view(np.float64)
        require_rows(rows.reshape(2 * n, m))
        known = size(m, of.corrector.n_sent)
        require_probabilities(data[:, 4 * m :], tail=0 if of.sets is None else TAIL)
        if of.sets != self.sets:  # sets of another promise: unknown
            stored, data = data, np.full((n, self.width // 4), np.nan, np.float32)
            data[:, : 4 * m + known] = stored[:, : 4 * m + known]
        every, width = data.astype("<f4").tobytes(), self.width
        return [every[at : at + width] for at in range(0, n * width, width)]

    def load_pending(self, unscored: Unscored) -> Unscored:
        """Check a labelled prediction of a snapshot."""
        pair, y, m = unscored.both, unscored.y, len(self.classes)
        if len(pair) != 16 * m or not isinstance(y, int) or not 0 <= y < m:
            raise ValueError("scores")
        require_rows(np.frombuffer(pair).reshape(2, m))
        return unscored

    def load_known(self, known: Any) -> int | None:
        """Check the label of a recent prediction of a snapshot."""
        if known is not None and (type(known) is not int or not 0 <= known < len(self.classes)):
            raise ValueError("the label of a recent prediction")
        return known


def _scores(sums: NDArray[Any]) -> Scores:
    well_formed = sums.dtype == np.float64 and sums.shape == Scores().sums().shape
    if not well_formed or not (np.abs(sums) < 2.0**53).all() or not (sums[:, 0] >= 0).all():
        raise ValueError("scores")
    return Scores.from_sums(sums)


def require_rows(rows: Array) -> None:
    """Raise where a row of a snapshot is no probability vector."""
    for i, why in bad_rows(np.ascontiguousarray(rows)).items():
        raise ValueError(f"row {i}: {why}")


def _column(texts: Texts | None, k: int, n: int) -> list[str | None]:
    column = None if texts is None else texts[k]
    return [None] * n if column is None else column


def _values(segments: Sequence[str], values: Given | None) -> dict[str, str | None] | None:
    return None if values is None else dict(zip(segments, values, strict=True))


def _named(segments: Sequence[str], texts: Texts | None) -> Mapping[str, Any] | None:
    """Column values as a corrector takes them."""
    if texts is None:
        return None
    return {n: texts_ for n, texts_ in zip(segments, texts, strict=True) if texts_ is not None}
