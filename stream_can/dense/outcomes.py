"""Outcomes of labelled predictions of dense rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.column_scores import outcomes
from stream_can.learner.call import Taught, rows_of
from stream_can.scores import score_rows

Array = NDArray[np.float64]


MOST_CLASSES = 32
"""Classes up to which confusion is kept."""

ADDED_AT_ONCE = 4096
"""Count of numbers in sent rows from which on they are added up: of many classes few rows wait."""


class ExpectedSums:
    """What sent rows say of labels that have not come, and what those that came said of others."""

    def __init__(self) -> None:
        self._sums = np.zeros(5)
        self._confusion: Array | None = None
        self._sent: list[Array] = []
        self._n_numbers = 0
        """Rows not yet added up, and the count of their numbers: a request has one row, whose sums
        cost as much as those of hundreds."""

    def add_rows(self, sent: Any) -> None:
        """Add sent rows; none where they differ in length."""
        if not isinstance(sent, np.ndarray) or sent.ndim != 2 or not sent.size:
            return
        if self._sent and self._sent[0].shape[1] != sent.shape[1]:
            self._add_up()
        self._sent.append(sent)
        self._n_numbers += sent.size
        if self._n_numbers >= ADDED_AT_ONCE:
            self._add_up()

    def _add_up(self) -> None:
        if not self._sent:
            return
        sent = np.concatenate(self._sent)
        self._sent, self._n_numbers = [], 0
        at = np.arange(len(sent)), sent.argmax(axis=1)
        top = sent[at]
        self._sums[:3] += len(sent), top.sum(), (top * (1 - top)).sum()
        if sent.shape[1] <= MOST_CLASSES:
            predicted = np.zeros(sent.shape)
            predicted[at] = 1
            self._confuse(0, predicted.T @ sent)

    def add_labels(self, sent: Array, y: NDArray[np.int64], weights: Array) -> None:
        """Add labels of sent rows, shape (n, m), with their weights."""
        best, m = sent.argmax(axis=1), sent.shape[1]
        gaps = (best == y) - sent[np.arange(len(y)), best]
        self._sums[3:] += weights.sum(), weights @ gaps
        if m <= MOST_CLASSES:
            pairs: Array = np.bincount(best * m + y, weights, m * m)  # type: ignore[assignment]
            self._confuse(1, pairs.reshape(m, m))

    def _confuse(self, kind: int, sums: Array) -> None:
        if self._confusion is None or self._confusion.shape[1:] != sums.shape:
            self._confusion = np.zeros((2, *sums.shape))
        self._confusion[kind] += sums

    def sums(self) -> list[float]:
        """See `stream_can.app.counts.Committed.expected`."""
        self._add_up()
        return self._sums.tolist()

    def take_confusion(self) -> Array | None:
        """Sums by predicted class since last taken, shape (2, m, m): of the probabilities of each
        class in sent rows, and of labels; None without any, or with more than 32 classes."""
        self._add_up()
        confusion, self._confusion = self._confusion, None
        return confusion


def outcomes_of(
    taught: Sequence[Taught], m: int
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.float32]]:
    """See `stream_can.app.tally.OutcomesOf`."""
    raw, sent, tails = rows_of(taught, m)
    y = np.array([label.prediction.known for label in taught], np.int64)
    raw_scores = score_rows(raw / raw.sum(axis=1, keepdims=True), y)
    return outcomes(raw_scores, score_rows(sent, y)), sent, y, tails
