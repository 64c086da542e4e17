"""SparseRun: corrects sparse rows and learns labels between them, in stream order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_can.errors import UnknownClass
from stream_can.learner.kinds import JoinedLabel
from stream_can.sparse.blob import SparseBlob
from stream_can.sparse.corrector import SparseCorrector
from stream_can.sparse.loop import given_by
from stream_can.sparse.rows import NumberedRows, SparseRow
from stream_can.sparse.scores import rank_of, unlisted


class SparseRun:
    """One run of a learner over rows and labels.

    Parameters
    ----------
    rows
        The rows of the run. Rows that were corrected elsewhere are observed.
    labels
        A known label of each row, or None, to be scored when the row is sent; None for no scores.
    passes
        Whether rows are sent as they came.
    """

    def __init__(
        self, corrector: SparseCorrector, rows: NumberedRows, labels: Sequence[Any] | None, *,
        passes: bool,
    ) -> None:  # fmt: skip
        self._model, self._classes, self._passes = corrector._model, corrector._classes, passes
        self._rows, self._labels = rows, labels
        self.sent = list[SparseRow]()
        self.blobs = list[bytes]()
        self.ranks = list[bytes]()
        """Rank and probability of the label of each row that has one among ``labels``."""

    def correct_until(self, end: int) -> None:
        """Correct the rows before number ``end`` that have not been corrected yet."""
        first, rows = len(self.blobs), self._rows
        if first >= end:
            return
        cut = slice(first, end)
        ids, P, rests, receipts = self._model.rows(
            rows.ids[cut], rows.P[cut], rows.ks[cut], True, True
        )
        for i, k in enumerate(rows.ks[cut].tolist()):
            n = int((ids[i] >= 0).sum())
            numbers, p, rest = ids[i, :n], P[i, :n], float(rests[i])
            if rows.sent_blobs is None:
                if self._passes:
                    numbers, p = rows.ids[first + i, :k], rows.P[first + i, :k]
                    rest = max(0.0, 1 - float(p.sum()))
                receipt = receipts[i][:, [*range(k), -1]]
                self.blobs.append(
                    SparseBlob.raw(rows, first + i) + SparseBlob.sent(numbers, p, rest, receipt)
                )
            else:
                self.blobs.append(rows.sent_blobs[first + i])
                blob = SparseBlob(self.blobs[-1])
                numbers, p, rest = blob.sent_ids, blob.sent_P, blob.rest
            names = self._classes.names_of(numbers.tolist())
            self.sent.append(SparseRow(dict(zip(names, p.tolist(), strict=True)), rest))
            if self._labels is not None and (label := self._labels[first + i]) is not None:
                (y,) = self._classes.numbers_of([label], "label", add=False, error=UnknownClass)
                self.ranks.append(self._rank_and_probability(SparseBlob(self.blobs[-1]), y))

    def learn(self, label: JoinedLabel) -> None:
        """Learn a label; record its rank and probability beside its prediction."""
        y, entry = np.array([label.y], np.int64), label.entry
        if label.row is None and entry is None:
            self._model.learn(None, None, None, y, None)
            return
        blob = None
        if entry is not None:
            blob = SparseBlob(self.blobs[entry.at] if entry.at >= 0 else entry.blob)
            entry.scored = self._rank_and_probability(blob, label.y)
        row = blob if label.row is None else SparseBlob(label.row)
        assert row is not None
        ids, P = row.ids[None].astype(np.int32), row.P[None].copy()
        ks = np.array([ids.shape[1]], np.int32)
        known = None
        if label.row is None and not np.isnan(row.receipt).any():
            known = given_by(row.receipt[None].astype(np.float32), ids, ks, y)
        self._model.learn(ids, P, ks, y, known)

    def _rank_and_probability(self, blob: SparseBlob, y: int) -> bytes:
        """Rank and probability of a label, raw and sent, as 4 float64."""
        P = blob.P.tolist()
        raw = rank_of(blob.ids.tolist(), P, y) or (-1.0, unlisted(P, self._classes.m))
        sent = rank_of(blob.sent_ids.tolist(), blob.sent_P.tolist(), y)
        if sent is None:
            ids = np.ascontiguousarray(blob.sent_ids, np.int32)
            sent = -1.0, blob.rest * self._model.tail_of(y, ids)
        return np.array([*raw, *sent], "<f8").tobytes()
