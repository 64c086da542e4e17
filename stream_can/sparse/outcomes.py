"""Outcomes of labelled sparse predictions, from the rank of their label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_can.column_scores import HITS, LOSSES
from stream_can.learner.call import Taught
from stream_can.scores import log_losses

Array = NDArray[np.float64]


def outcomes_of(
    taught: Sequence[Taught], m: int
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.float32]]:
    """See `stream_can.app.tally.OutcomesOf`."""
    n = len(taught)
    scored = b"".join([label.prediction.scored for label in taught])
    rank, p = np.frombuffer(scored, "<f8").reshape(n, 2, 2).transpose(2, 0, 1)
    outcomes = np.zeros((n, 6))
    outcomes[:, HITS : HITS + 2], outcomes[:, LOSSES : LOSSES + 2] = rank == 0, log_losses(p)
    return outcomes, np.empty((0, 0)), np.empty(0, np.int64), np.full((n, 1), np.nan, np.float32)
