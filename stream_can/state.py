"""The arrays of a corrector that has seen nothing, and the priors they start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import paths as path_names

Array = NDArray[np.float64]
State = dict[str, NDArray[Any]]

ANCHOR_SHARE = 0.001
"""Starting weight of every path but the anchor, which has the rest."""


def laplace(counts: ArrayLike) -> Array:
    r"""Class prior from training counts, smoothed so that no class is impossible.

    $$ q_i = \frac{n_i + 1}{\sum_j (n_j + 1)} $$

    Parameters
    ----------
    counts
        Training rows per class, shape (m,), finite and >= 0.

    Returns
    -------
    Probabilities, shape (m,).

    Raises
    ------
    ValueError
        Where a count is negative or not finite, or where the counts are frequencies.

    Examples
    --------
    >>> laplace([7, 0, 0])
    array([0.8, 0.1, 0.1])
    """
    n = np.asarray(counts)
    if n.ndim != 1 or not len(n) or n.dtype.kind not in "fiub":
        raise ValueError(f"training counts: expected m numbers, got {n.dtype} of shape {n.shape}")
    n = n.astype(np.float64)
    if not (np.isfinite(n).all() and (n >= 0).all()):
        raise ValueError("training counts: each must be finite and >= 0")
    if abs(n.sum() - 1) < 1e-3 and (n % 1 != 0).any():
        raise ValueError(
            "training counts sum to 1: these are frequencies, pass the numbers of rows"
        )
    q: Array = (n + 1) / (n + 1).sum()
    return q


def new_state(m: int, paths: Sequence[str]) -> State:
    """The arrays of a corrector that has seen nothing."""
    state: State = {
        "weights": start_weights(paths),
        "labels": np.zeros(m),
        "recent": np.zeros(3),
        "counts": np.zeros(3, np.int64),
    }
    for base in dict.fromkeys(path_names.split(path)[0] for path in paths):
        if base != "raw":
            state[f"b.{base}"] = np.array([0.0, 10.0])
        if base in ("vector", "matrix"):
            state[f"c.{base}"], state[f"H.{base}"] = np.zeros(m), np.zeros(m)
        if base == "matrix":
            state[f"A.{base}"] = np.zeros((m, m), np.float32)
            state[f"G.{base}"] = np.zeros((m, m), np.float32)
        if (base == "raw" and "can" in paths) or f"{base}+can" in paths:
            state[f"S.{base}"] = np.zeros(m)
    return state


def start_weights(paths: Sequence[str]) -> Array:
    """Weights before any label: nearly all on the anchor."""
    w = np.full(len(paths), ANCHOR_SHARE)
    w[paths.index(path_names.anchor(tuple(paths)))] = 1 - ANCHOR_SHARE * (len(paths) - 1)
    return w
