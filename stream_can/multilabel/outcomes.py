"""Outcomes of labelled multilabel predictions.

A hit is the share of known labels predicted correctly (more likely than not where true), and log
loss is the row's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_can.column_scores import HITS, LOSSES
from stream_can.learner.call import Taught, rows_of
from stream_can.scores import log_losses

Array = NDArray[np.float64]


def outcomes_of(
    taught: Sequence[Taught], m: int
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.float32]]:
    """See `stream_can.app.tally.OutcomesOf`."""
    raw, sent, tails = rows_of(taught, m)
    Y = np.frombuffer(b"".join([label.prediction.known for label in taught]), np.int8).reshape(
        -1, m
    )
    known, is_true = Y >= 0, Y == 1
    n_known, outcomes = np.maximum(known.sum(axis=1), 1), np.zeros((len(Y), 6))
    for side, P in enumerate((raw, sent)):
        right = ((P >= 0.5) == is_true) & known
        outcomes[:, HITS + side] = right.sum(axis=1) / n_known
        outcomes[:, LOSSES + side] = (log_losses(np.where(is_true, P, 1 - P)) * known).sum(axis=1)
    return outcomes, sent, np.empty(0, np.int64), tails
