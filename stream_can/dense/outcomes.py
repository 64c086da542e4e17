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


def confidence_of(sent: Any) -> tuple[float, float]:
    """Sums of the largest probability p of each sent row, and of p (1 - p); 0 where rows differ in
    length."""
    if not isinstance(sent, np.ndarray) or sent.ndim != 2 or not sent.size:
        return 0.0, 0.0
    top = sent.max(axis=1)
    return float(top.sum()), float((top * (1 - top)).sum())


def outcomes_of(
    taught: Sequence[Taught], m: int
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.float32]]:
    """See `stream_can.app.tally.OutcomesOf`."""
    raw, sent, tails = rows_of(taught, m)
    y = np.array([label.prediction.known for label in taught], np.int64)
    raw_scores = score_rows(raw / raw.sum(axis=1, keepdims=True), y)
    return outcomes(raw_scores, score_rows(sent, y)), sent, y, tails
