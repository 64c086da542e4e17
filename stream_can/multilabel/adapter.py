"""MultiLabel: the learner's adapter of a `MultiLabelCorrector`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.learner.declared_classes import DeclaredClasses, DeclaredRows
from stream_can.learner.kinds import JoinedLabel, Judged, LabelChange, RunOutput, Unscored
from stream_can.learner.sent import SentVersion
from stream_can.method.promise import names_in_sets
from stream_can.method.receipt_checks import require_probabilities, require_size
from stream_can.multilabel.corrector import MultiLabelCorrector
from stream_can.multilabel.loop import outside
from stream_can.multilabel.scores import LabelScores

Array = NDArray[np.float64]


HALF = 0.5
"""From where on a label of a row that is sent as it came is in it."""
BYTES_OF_LABEL = 500
"""Of its arrays, its name, and what the loop works in."""


class MultiLabel(DeclaredClasses):
    """Adapter of a `MultiLabelCorrector`. A label is a row of 1, 0 and -1, as m bytes."""

    segments: tuple[str, ...] = ()
    sets: float | None = None
    makes_sets = True
    passes = corrects_alone = False
    random_requests = 1.0

    described = "multilabel rows"
    has_weights = False
    has_models = True

    def __init__(self, corrector: MultiLabelCorrector) -> None:
        self.corrector, self.classes = corrector, corrector.labels
        self.rows_width, self.width = 16 * corrector.m, 24 * corrector.m
        self.nbytes = BYTES_OF_LABEL * corrector.m

    @property
    def train_prior(self) -> Array:
        """The training prior of its corrector."""
        return self.corrector.train_shares

    # ---- rows

    def rows(self, n: int, P: Any, segments: Mapping[str, Sequence[Any]] | None) -> DeclaredRows:
        """Check the n rows of a call; P may be None."""
        if segments:
            raise ValueError(f"segments: {next(iter(segments))!r} was not declared; declared: ()")
        if P is None:
            return DeclaredRows(np.empty((0, self.corrector.m)))
        raw = self.corrector._rows_of(P)
        if len(raw) != n:
            raise InvalidPrediction(f"{n} ids for {len(raw)} rows")
        return DeclaredRows(raw)

    def row(self, p: Any) -> Array:
        """Check one row; return it like the rows of a call."""
        return self.corrector._row_of(p)

    # ---- labels

    def label(self, label: Any, id: Any) -> bytes:
        """Check {label: whether the row has it}, names of its labels, or an array of 1, 0, -1."""
        corrector = self.corrector
        if isinstance(label, bytes) and len(label) == corrector.m:  # from a snapshot
            label = np.frombuffer(label, np.int8)
        try:
            if isinstance(label, Mapping):
                row = corrector._row_of_known(label)
            elif isinstance(label, list | tuple | set | frozenset):
                row = corrector.row_of(label)
            elif isinstance(label, np.ndarray):
                row = corrector._labels_of(label[None])[0]
            else:
                raise UnknownClass(
                    f"{label!r}, expected a list of labels, or {{label: whether it has it}}"
                )
        except UnknownClass as error:
            raise UnknownClass(f"label of {id!r}: {error}") from None
        return row.tobytes()

    def held(self, y: bytes) -> bytes:
        """Return a label as a snapshot stores it."""
        return y

    def news(self, known: bytes | None, y: bytes) -> LabelChange:
        """Compare a label with the known one: for each class the first word counts."""
        later = np.frombuffer(y, np.int8)
        if known is None:
            return (y, y, False) if (later >= 0).any() else (None, None, False)
        earlier = np.frombuffer(known, np.int8)
        new = np.where(earlier < 0, later, np.int8(-1))
        differs = bool(((earlier >= 0) & (later >= 0) & (earlier != later)).any())
        if not (new >= 0).any():
            return None, known, differs
        return new.tobytes(), np.where(earlier < 0, later, earlier).tobytes(), differs

    # ---- the corrector

    def corrected(
        self, raw: Array, segments: Mapping[str, Sequence[Any]] | None
    ) -> tuple[Array, NDArray[np.float32], list[list[Any]]]:
        """Correct rows without learning: sent rows, receipts, labels decided on."""
        sent, receipts = self.corrector.correct_many(raw, receipt=True)
        yes = self.corrector.decide(sent)
        if self.passes:
            sent, yes = raw, raw >= HALF
        return sent, receipts, names_in_sets(yes, sent.astype(np.float32), self.classes)

    def run(
        self, rows: DeclaredRows, labels: Sequence[JoinedLabel], explain: object = None
    ) -> RunOutput:
        """Correct rows and learn labels, in stream order; rows that were corrected elsewhere are
        observed. Explained are the decisions on each label, shape (n, m)."""
        sent_blobs = rows.sent_blobs
        P, first, of, _, with_entry, _, receipts = self._place(labels, rows.raw, sent_blobs)
        known = np.full((len(labels), 2 * self.corrector.m), np.nan, np.float32)
        known[with_entry] = receipts
        Y = np.frombuffer(b"".join([label.y for label in labels]), np.int8)
        due = np.array([label.due for label in labels], np.int64)
        played = self.corrector.play(
            P, Y.reshape(-1, self.corrector.m), of, due, first=first, receipts=known
        )
        if sent_blobs is not None:
            return RunOutput(self._sent_of(sent_blobs), (np.ascontiguousarray(sent_blobs),), None)
        sent, yes = played.rows, played.decided
        if self.passes:
            sent, yes = rows.raw, rows.raw >= HALF
        sets = names_in_sets(yes, sent.astype(np.float32), self.classes)
        blobs = rows.raw, sent, played.receipts
        return RunOutput(sent, blobs, sets, played.decided if explain else None)

    def uncertainty(self, sent: Array) -> list[float]:
        """0: all requests are random, which taught more than any choice by the row
        (docs/multilabel.md)."""
        return [0.0] * len(sent)

    def successor(self) -> MultiLabel:
        """The adapter with which a new version of the classifier starts."""
        return MultiLabel(self.corrector.successor())

    # ---- scores

    def new_judged(self) -> Judged:
        """Empty scores; there is no alarm."""
        return Judged(LabelScores(self.corrector.m), LabelScores(self.corrector.m), None)

    def judge(self, judged: Judged, pending: Sequence[Unscored]) -> None:
        """Score more labelled predictions."""
        m = self.corrector.m
        pairs = np.frombuffer(b"".join([row.rows for row in pending])).reshape(len(pending), 2, m)
        Y = np.frombuffer(b"".join([row.y for row in pending]), np.int8).reshape(-1, m)
        judged.raw.add_checked(pairs[:, 0], Y)
        judged.sent.add_checked(pairs[:, 1], Y)

    def copied(self, judged: Judged) -> Judged:
        """An independent copy."""
        none = LabelScores(self.corrector.m)
        return Judged(judged.raw + none, judged.sent + none, None)

    # ---- what a snapshot holds

    def load_judged(self, raw: NDArray[Any], sent: NDArray[Any], alarm: bytes | None) -> Judged:
        """Restore scores from their sums."""
        m = self.corrector.m
        return Judged(LabelScores.from_sums(raw, m), LabelScores.from_sums(sent, m), None)

    def require_sent(self, lane: SentVersion) -> None:
        """ValueError where rows that another process sent are none, whatever their classes."""
        _require_blobs(lane.rows, len(lane.classes))

    def load_blobs(self, data: NDArray[Any], of: MultiLabel) -> list[bytes]:
        """Restore rows, sent rows and receipts, float32 of shape (n, 6 m)."""
        _require_blobs(data, self.corrector.m)
        return self._cut_blobs(data)

    def load_pending(self, unscored: Unscored) -> Unscored:
        """Check a labelled prediction of a snapshot."""
        pair = unscored.rows
        if len(pair) != 16 * self.corrector.m:
            raise ValueError("scores")
        _require_rows(np.frombuffer(pair).reshape(2, -1))
        known = self.load_known(unscored.y)
        if known is None:
            raise ValueError("scores")
        return unscored._replace(y=known)

    def load_known(self, known: Any) -> bytes | None:
        """Check the labels of a recent prediction of a snapshot."""
        if known is None:
            return None
        well_formed = isinstance(known, bytes) and len(known) == self.corrector.m
        if not well_formed or not np.isin(np.frombuffer(known, np.int8), (-1, 0, 1)).all():
            raise ValueError("the labels of a recent prediction")
        return bytes(known)


def _require_blobs(data: NDArray[np.float32], m: int) -> None:
    """Raise where rows, sent rows or receipts, shape (n, 6 m), are no probabilities."""
    receipts = data[:, 4 * m :]
    require_size(receipts, (len(data), 2 * m))
    _require_rows(np.ascontiguousarray(data[:, : 4 * m]).view(np.float64))
    require_probabilities(receipts, most=1)


def _require_rows(rows: Array) -> None:
    """Raise where a row of a snapshot has a value outside [0, 1]."""
    if (bad_cell := outside(np.array(rows, order="C"))) is not None:
        raise ValueError(f"row {bad_cell[0]}: {rows[bad_cell]} is no probability")
