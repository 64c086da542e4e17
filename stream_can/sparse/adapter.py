"""Sparse: the learner's adapter of a `SparseCorrector`."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.learner.class_labels import ClassLabels
from stream_can.learner.kinds import Given, JoinedLabel, Judged, RunOutput, Unscored
from stream_can.scores import RowScores
from stream_can.sparse.blob import PROMOTED, SparseBlob, checked_blobs
from stream_can.sparse.corrector import SparseCorrector
from stream_can.sparse.lanes import SparseLanes
from stream_can.sparse.loop import MOST_LISTED
from stream_can.sparse.numbering import NamedRow
from stream_can.sparse.row_checks import checked_row
from stream_can.sparse.rows import NumberedRows, Rows, SparseRow
from stream_can.sparse.run import SparseRun
from stream_can.sparse.scores import SparseScores


class Sparse(SparseLanes, ClassLabels):
    """Adapter of a `SparseCorrector`. A row is {class: probability}; a label is its number."""

    classes: tuple[Any, ...] = ()
    segments: tuple[str, ...] = ()
    sets: float | None = None
    makes_sets = passes = corrects_alone = False
    scores = SparseScores
    random_requests = 0.5
    width = rows_width = 0
    """0: rows differ in length."""

    described = "sparse rows"
    has_weights = False
    has_models = False

    nbytes = 0  # no models: there is one

    def __init__(self, corrector: SparseCorrector) -> None:
        super().__init__(corrector)

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
                checked.append(row if isinstance(row, Rows) else checked_row(row, self._classes))
            except InvalidPrediction as error:
                raise InvalidPrediction(f"row {i}: {error}") from None
        widest = max((row.ids.shape[1] for row in checked), default=1)
        ids = np.full((n, widest), -1, np.int32)
        rows = NumberedRows(ids, np.zeros((n, widest)), np.empty(n, np.int32))
        for i, (plain, numbered) in enumerate(zip(unchecked, checked, strict=True)):
            k = int(numbered.ks[0])
            rows.ks[i], rows.P[i, :k] = k, numbered.P[0, :k]
            rows.ids[i, :k] = (
                numbered.ids[0, :k] if numbered is plain
                else self._classes.numbers_of(list(plain), "row", add=True, error=InvalidPrediction)
            )  # fmt: skip
        return rows

    def row(self, p: Any) -> list[Any]:
        """Return one row like the rows of a call."""
        return [p]

    def mark_corrected(self, rows: NumberedRows, blobs: NDArray[np.float32]) -> NumberedRows:
        """Mark the rows of a call as corrected elsewhere."""
        return rows._replace(sent_blobs=list(checked_blobs(blobs, self._classes.known)))

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

    @property
    def n_known(self) -> int:
        """Numbers below this are classes."""
        return self._classes.known

    def held(self, y: int) -> Any:
        """Return the class, as a snapshot stores the label."""
        return self._classes.names_of([y])[0]

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
            numbers = self._classes.numbers_of(names, "row", add=False, error=InvalidPrediction)
            k = np.array([len(names)], np.int32)
            ids, P, rests, receipt = corrector._model.rows(
                np.array([numbers], np.int32), p[None], k, False, True
            )
            all_names = names + self._classes.names_of(ids[0][ids[0] >= 0].tolist()[len(names) :])
            better, rest = dict(zip(all_names, P[0].tolist(), strict=False)), float(rests[0])
            if self.passes:
                better, rest = dict(zip(names, p.tolist(), strict=True)), 1 - float(p.sum())
            sent.append(SparseRow(better, max(0.0, rest)))
            receipts.append(receipt[0])
        return sent, receipts, None

    def run(
        self,
        rows: NumberedRows,
        labels: Sequence[JoinedLabel],
        explain: Sequence[Any] | None = None,
    ) -> RunOutput:
        """Correct rows and learn labels, in stream order.

        ``explain`` has a label for each row, or None: of rows with one it is found out, when they
        are sent, which rank and probability it has, raw and sent, shape (rows with one, 4).
        """
        run = SparseRun(self.corrector, rows, explain, passes=self.passes)
        for label in labels:
            run.correct_until(label.due)
            run.learn(label)
        run.correct_until(len(rows.ks))
        ranks = None if explain is None else np.frombuffer(b"".join(run.ranks), "<f8")
        return RunOutput(run.sent, run.blobs, None, None if ranks is None else ranks.reshape(-1, 4))

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
        raise ValueError("sparse rows have no versions")

    # ---- scores

    def score(self, judged: Judged, pending: Sequence[Unscored]) -> tuple[RowScores, RowScores]:
        """Add labelled predictions to the scores; return the scores of each, raw and sent."""
        ranked = np.frombuffer(b"".join([row.rows for row in pending]), "<f8").reshape(-1, 2, 2)
        raw, sent = ranked.transpose(1, 2, 0)
        return judged.raw.add_checked(*raw), judged.sent.add_checked(*sent)

    # ---- what a snapshot holds

    def load_blobs(self, data: NDArray[Any], of: Sparse) -> list[bytes]:
        """Blobs, padded to the widest: float32 of shape (n, words)."""
        return list(checked_blobs(data, self._classes.known))

    def load_pending(self, unscored: Unscored) -> Unscored:
        """A labelled prediction."""
        ranked = (
            np.frombuffer(unscored.rows, "<f8") if len(unscored.rows) == 32 else np.array([np.nan])
        )
        ranks, p = ranked[::2], ranked[1::2]
        if not (ranks >= -1).all() or not (ranks <= MOST_LISTED + PROMOTED).all():
            raise ValueError("scores")
        if not ((p >= 0) & (p <= 1.001)).all():
            raise ValueError("scores")
        return unscored
