"""Outcomes of labelled predictions of dense rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_can.column_scores import outcomes
from stream_can.learner.call import Taught, rows_of
from stream_can.scores import score_rows

__all__ = ["outcomes_of"]

Array = NDArray[np.float64]


def outcomes_of(
    taught: Sequence[Taught], m: int
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.float32]]:
    """See `stream_can.app.tally.OutcomesOf`."""
    raw, sent, tails = rows_of(taught, m)
    y = np.array([label.prediction.known for label in taught], np.int64)
    raw_scores = score_rows(raw / raw.sum(axis=1, keepdims=True), y)
    return outcomes(raw_scores, score_rows(sent, y)), sent, y, tails
