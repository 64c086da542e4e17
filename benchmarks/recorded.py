"""Recorded streams as benchmarks take them: .npz files with probs (n, m), labels (n,) and
train_counts (m,)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def recorded(path: Path) -> tuple[Any, Any, Any]:
    """The rows, each divided by its sum, the labels and the training rows per class."""
    with np.load(path) as held:
        P, y = held["probs"].astype(np.float64), held["labels"].astype(np.int64)
        return P / P.sum(axis=1, keepdims=True), y, held["train_counts"]


def distinct(path: Path) -> tuple[Any, Any, Any]:
    """The same of the first occurrence of each distinct row, in their order."""
    P, y, counts = recorded(path)
    _, first = np.unique(P, axis=0, return_index=True)
    keep = np.sort(first)
    return P[keep], y[keep], counts


def halves(P: Any) -> tuple[Any, Any]:
    """Which rows may be learned and which are scored: all, or, where rows repeat, half of the
    distinct ones each, so that no label is learned of a row that is scored."""
    _, source = np.unique(P, axis=0, return_inverse=True)
    source = source.ravel()
    if source.max() + 1 >= 0.95 * len(P):
        return np.ones(len(P), bool), np.ones(len(P), bool)
    half = np.random.default_rng(7).random(source.max() + 1) < 0.5
    return half[source], ~half[source]
