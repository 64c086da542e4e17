"""Scores of predictions: accuracy, log loss, Brier score, calibration error.

Every score is a mean over rows, so :class:`Scores` can add up a stream chunk by chunk in constant
memory, and parts of a stream can be added; the functions score a single chunk.
"""

from stream_can.scores.of_chunk import (
    accuracy,
    adaptive_ece,
    brier,
    ece,
    log_loss,
    mce,
    reliability_bins,
)
from stream_can.scores.row_scores import FLOOR, RowScores, log_losses, score_rows
from stream_can.scores.scores import Reliability, Scores

__all__ = [
    "FLOOR",
    "Reliability",
    "RowScores",
    "Scores",
    "accuracy",
    "adaptive_ece",
    "brier",
    "ece",
    "log_loss",
    "log_losses",
    "mce",
    "reliability_bins",
    "score_rows",
]
