"""Outcomes of labelled predictions of dense rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_can.column_scores import outcomes
from stream_can.learner.lane import Taught
from stream_can.method.receipts import TAIL
from stream_can.scores import score_rows

__all__ = ["outcomes_of"]

Array = NDArray[np.float64]


def outcomes_of(
    taught: Sequence[Taught], m: int
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.float32]]:
    """See `stream_can.app.tally.OutcomesOf`."""
    n = len(taught)
    data = np.frombuffer(b"".join([one.prediction.blob for one in taught]), "<f4").reshape(n, -1)
    both = np.ascontiguousarray(data[:, : 4 * m]).view(np.float64)
    raw, sent = both[:, :m], both[:, m:]
    y = np.array([one.prediction.known for one in taught], np.int64)
    before = score_rows(raw / raw.sum(axis=1, keepdims=True), y)
    return outcomes(before, score_rows(sent, y)), sent, y, data[:, -TAIL:]
