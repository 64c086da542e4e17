"""Row scores: hits, log losses and confidences of single rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import UnknownClass
from stream_can.method.checks import checked
from stream_can.method.likeliest import likeliest

FLOOR = 1e-6
"""Smallest probability for log loss: a row costs at most 13.8 nats."""


class RowScores(NamedTuple):
    """Scores of rows, each of shape (n,)."""

    best: NDArray[np.intp]
    """Index of the likeliest class."""
    hits: NDArray[np.bool_]
    """Whether it is the label."""
    losses: NDArray[np.float64]
    """Log loss in nats."""
    confidence: NDArray[np.float64]
    """Probability of the likeliest class."""


def log_losses(of_label: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log losses in nats of labels with these probabilities."""
    losses: NDArray[np.float64] = -np.log(np.maximum(of_label, FLOOR))
    return losses


def score_rows(P: NDArray[np.float64], y: NDArray[np.integer[Any]]) -> RowScores:
    """Score checked rows, shape (n, m), by the index of each label."""
    return score_with_labels(P, y)[0]


def score_with_labels(
    P: NDArray[np.float64], y: NDArray[np.integer[Any]]
) -> tuple[RowScores, NDArray[np.float64]]:
    """Scores of checked rows, and the probabilities of their labels."""
    best, confidence, of_label = likeliest(np.ascontiguousarray(P), np.asarray(y, np.int64))
    return RowScores(best, best == y, log_losses(of_label), confidence), of_label


def check_rows(P: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Check rows and label indices."""
    probs = checked(P)
    labels = np.asarray(y)
    if labels.shape != (len(probs),):
        raise UnknownClass(f"expected one label per row, shape ({len(probs)},), got {labels.shape}")
    if labels.size and labels.dtype.kind not in "iu":
        raise UnknownClass(
            f"labels: expected the index of each class as integers, got {labels.dtype}; "
            "numpy.searchsorted or a dict turns names into indices"
        )
    wrong = (labels < 0) | (labels >= probs.shape[1])
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise UnknownClass(f"row {row}: label {labels[row]} is not in [0, {probs.shape[1]})")
    return probs, labels.astype(np.intp)
