"""Dense: the learner's adapter of a `Corrector`. Rows are vectors, labels classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector, Played
from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.learner.class_labels import ClassLabels
from stream_can.learner.declared_classes import DeclaredClasses, DeclaredRows
from stream_can.learner.kinds import Given, JoinedLabel, Judged, RunOutput, Unscored
from stream_can.learner.sent import SentVersion
from stream_can.method.checks import bad_rows
from stream_can.method.kernel import inside
from stream_can.method.promise import names_in_sets, promise_of
from stream_can.method.receipt_checks import require_probabilities, require_size
from stream_can.method.receipts import (
    NOT_FAIR,
    OF_ROW,
    TAIL,
    gave_all,
    none_known,
    size,
    thetas_of,
    width_has_sets,
)
from stream_can.method.rows import as_float64
from stream_can.method.segments import Texts
from stream_can.method.state import bytes_kept
from stream_can.method.uncertainty import margin
from stream_can.method.weights import weights_in
from stream_can.scores import RowScores, Scores

BYTES_OF_CLASS = 500
"""Of its name and of what the loop works in, beside half as much as the arrays: measured, within
11 %."""

Array = NDArray[np.float64]


class Dense(DeclaredClasses, ClassLabels):
    """Adapter of a `Corrector`."""

    scores = Scores
    random_requests = 0.5
    passes = False
    corrects_alone = True

    described = "dense rows"
    has_models = has_weights = True

    def __init__(self, corrector: Corrector) -> None:
        self.corrector = corrector
        self.classes, self.segments, self.sets = (
            corrector.classes, corrector.segments, corrector.sets,
        )  # fmt: skip
        self.makes_sets = self.sets is not None
        m = len(self.classes)
        arrays = bytes_kept(m, corrector.paths, len(self.segments))
        self.nbytes = arrays * 3 // 2 + BYTES_OF_CLASS * m
        self.rows_width = 16 * m
        self.width = self.rows_width + 4 * size(m, corrector.n_sent, sets=self.sets is not None)

    @property
    def train_prior(self) -> Array:
        """The training prior of its corrector."""
        return self.corrector.train_prior

    # ---- rows

    def rows(self, n: int, P: Any, segments: Mapping[str, Sequence[Any]] | None) -> DeclaredRows:
        """Check the n rows of a call and their column values; P may be None."""
        m = len(self.classes)
        if P is None and n == 0 and segments is None:
            return DeclaredRows(np.empty((0, m)))
        raw = np.empty((0, m)) if P is None else as_float64(P, self.corrector._index)
        texts = None if segments is None else self.corrector._texts(segments)
        fits = raw.ndim == 2 and raw.shape[1] == m and not bad_rows(raw)
        if fits and len(raw) != n:
            raise InvalidPrediction(f"{n} ids for {len(raw)} rows")
        if not fits or any(column is not None and len(column) != n for column in texts or ()):
            self.corrector.correct_many(raw, segments=segments)  # raises with the reason
        return DeclaredRows(raw, texts)

    def row(self, p: Any) -> Array:
        """Check one row; return it like the rows of a call."""
        raw = as_float64(p, self.corrector._index)
        if raw.shape != (len(self.classes),):
            self.corrector.correct_one(raw)  # raises with the reason
        return raw[None]

    # ---- labels

    @property
    def n_known(self) -> int:
        """Numbers below this are classes."""
        return len(self.classes)

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

    def run(
        self, rows: DeclaredRows, labels: Sequence[JoinedLabel], explain: object = None
    ) -> RunOutput:
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
            return RunOutput(raw, [], None)
        else:
            sent, receipts, _ = self._play(rows, labels)
        assert receipts is not None
        sets = self._names_in_sets(sent, receipts)
        if self.passes:
            sent = raw
        return RunOutput(sent, (raw, sent, receipts), sets, paths)

    def _observe(self, rows: DeclaredRows, labels: Sequence[JoinedLabel]) -> RunOutput:
        """Observe rows that were corrected elsewhere, and learn the labels between them."""
        assert rows.sent_blobs is not None
        data = self._of_this_width(rows.sent_blobs)
        if labels:
            self._play(rows, labels, data)
        else:
            self.corrector.observe_many(rows.raw, segments=_named(self.segments, rows.texts))
        return RunOutput(self._sent_of(data), (data,), None)

    def _of_this_width(self, blobs: NDArray[np.float32]) -> NDArray[np.float32]:
        """What another corrector made: with sets that this one does not make, or without; receipts
        of other rows become unknown ones."""
        words = blobs.shape[1]
        if 4 * words == self.width:
            return np.ascontiguousarray(blobs)
        m, n_sent, known = len(self.classes), self.corrector.n_sent, self.rows_width // 4
        if words - known == size(m, n_sent, sets=self.sets is None):
            known += size(m, n_sent)
        return _first_words(blobs, known, self.width // 4)

    def _learn_one(self, joined: JoinedLabel) -> None:
        """Learn a single label without rows: the same bits, in less time."""
        y, entry, row, values = joined.y, joined.entry, joined.row, joined.given
        corrector = self.corrector
        label, m = self.classes[y], len(self.classes)
        weight = joined.weight
        if row is not None:
            segments, p = _values(self.segments, values), np.frombuffer(row)
            corrector.learn_one(p, label, segments=segments, weight=weight)
        elif entry is None:
            corrector.learn_one(None, label, weight=weight)
        else:
            receipt = np.frombuffer(entry.blob, np.float32, offset=16 * m)
            if not entry.fair and self.sets is not None:
                receipt = receipt.copy()
                receipt[OF_ROW] = NOT_FAIR
            segments = _values(self.segments, entry.columns)
            p = np.frombuffer(entry.blob, np.float64, m)
            corrector.learn_one(p, label, receipt=receipt, segments=segments, weight=weight)

    def _play(
        self,
        rows: DeclaredRows,
        labels: Sequence[JoinedLabel],
        sent_blobs: NDArray[np.float32] | None = None,
        *,
        explain: bool = False,
    ) -> Played:
        """Play rows and labels; return the corrected rows and their receipts.

        ``made`` is what another corrector made of the rows: then no receipts are made.
        """
        n_sent, sets = self.corrector.n_sent, self.sets is not None
        y = np.array([label.y for label in labels], np.int64)
        due = np.array([label.due for label in labels], np.int64)
        P, first, of, with_row, with_entry, entries, receipts = self._place(
            labels, rows.raw, sent_blobs
        )
        known = none_known(len(labels), n_sent, sets=sets)
        if with_entry:
            known_of_kept = gave_all(receipts, y[with_entry], n_sent, sets=sets)
            if sets:
                known_of_kept[[not entry.fair for entry in entries], OF_ROW] = NOT_FAIR
            known[with_entry] = known_of_kept
        segments = None
        if names := self.segments:
            values = [labels[i].given for i in with_row] + [entry.columns for entry in entries]
            segments = {
                name: [None if row is None else row[k] for row in values]
                + _column(rows.texts, k, len(rows.raw))
                for k, name in enumerate(names)
            }
        return self.corrector.play(
            P, y, of, due, first=first, known=known, receipt=sent_blobs is None,
            segments=segments, explain=explain, weights=weights_in(labels),
        )  # fmt: skip

    def uncertainty(self, sent: Array) -> list[float]:
        """1 - (best - second best)."""
        scores: list[float] = margin(sent).tolist() if len(sent) else []
        return scores

    def successor(self) -> Dense:
        """The adapter with which a new version of the classifier starts."""
        return Dense(self.corrector.successor())

    # ---- scores

    def score(self, judged: Judged, pending: Sequence[Unscored]) -> tuple[RowScores, RowScores]:
        """Add labelled predictions to the scores; return the scores of each, raw and sent."""
        rows = np.frombuffer(b"".join([row.rows for row in pending]))
        P = rows.reshape(len(pending), 2, len(self.classes))
        y, weights = np.array([row.y for row in pending], np.int64), weights_in(pending)
        return (
            judged.raw.add_checked(np.ascontiguousarray(P[:, 0]), y, weights),
            judged.sent.add_checked(np.ascontiguousarray(P[:, 1]), y, weights),
        )

    def restored_scores(self, sums: NDArray[Any]) -> Scores:
        """Restore scores from their sums; ValueError where they are impossible."""
        well_formed = sums.dtype == np.float64 and sums.shape == Scores().sums().shape
        if not well_formed or not (np.abs(sums) < 2.0**53).all() or not (sums[:, 0] >= 0).all():
            raise ValueError("scores")
        return Scores.from_sums(sums)

    # ---- what a snapshot holds

    def require_sent(self, lane: SentVersion) -> None:
        """ValueError where rows that another process sent are none, whatever their classes."""
        n, m, receipts = len(lane.rows), len(lane.classes), lane.receipts
        if m < 1:
            raise ValueError("rows of no classes")
        n_sent = self.corrector.n_sent
        has_sets = width_has_sets(receipts.shape[1], m, n_sent)
        if has_sets is None:
            require_size(receipts, (n, size(m, n_sent, sets=self.sets is not None)))
        rows = np.ascontiguousarray(lane.rows[:, : 4 * m]).view(np.float64)
        require_rows(rows.reshape(2 * n, m))
        require_probabilities(receipts, tail=TAIL if has_sets else 0)

    def classes_in_sets(self, version: SentVersion) -> int:
        """Total number of classes in the prediction sets of rows that another process sent."""
        m = len(version.classes)
        if not width_has_sets(version.receipts.shape[1], m, self.corrector.n_sent):
            return 0
        thetas = thetas_of(version.receipts)
        known = ~np.isnan(thetas)
        sent = np.ascontiguousarray(version.sent[known], np.float32)
        return int(inside(sent, thetas[known]).sum())

    def load_blobs(self, data: NDArray[Any], of: Dense) -> list[bytes]:
        """Restore rows, sent rows and receipts, float32 of shape (n, width / 4) of the adapter
        ``of``."""
        n, m = len(data), len(self.classes)
        if data.dtype != np.float32 or data.shape[1] < 4 * m:
            raise ValueError("the size of recent predictions")
        if data.shape[1] != of.width // 4:  # stored under other settings
            data = _first_words(data, 4 * m, of.width // 4)
        rows = np.ascontiguousarray(data[:, : 4 * m]).view(np.float64)
        require_rows(rows.reshape(2 * n, m))
        require_probabilities(data[:, 4 * m :], tail=0 if of.sets is None else TAIL)
        promises = [promise_of(dense.corrector) for dense in (of, self)]
        if promises[0] != promises[1] or of.width != self.width:  # sets of another: unknown
            alike = of.corrector.n_sent == self.corrector.n_sent
            known = 4 * m + (size(m, self.corrector.n_sent) if alike else 0)
            data = _first_words(data, known, self.width // 4)
        return self._cut_blobs(data)

    def load_pending(self, unscored: Unscored) -> Unscored:
        """Check a labelled prediction of a snapshot."""
        pair, y, m = unscored.rows, unscored.y, len(self.classes)
        if len(pair) != 16 * m or not isinstance(y, int) or not 0 <= y < m:
            raise ValueError("scores")
        require_rows(np.frombuffer(pair).reshape(2, m))
        return unscored


def require_rows(rows: Array) -> None:
    """Raise where a row of a snapshot is no probability vector."""
    for i, why in bad_rows(np.ascontiguousarray(rows)).items():
        raise ValueError(f"row {i}: {why}")


def _first_words(blobs: NDArray[np.float32], known: int, words: int) -> NDArray[np.float32]:
    """Rows of so many words: the first ``known`` are those of the blobs, the others unknown."""
    data = np.full((len(blobs), words), np.nan, np.float32)
    data[:, :known] = blobs[:, :known]
    return data


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
