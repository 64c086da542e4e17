"""The arrays of a corrector that has seen nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.method import paths as path_names

Array = NDArray[np.float64]
State = dict[str, NDArray[Any]]

ANCHOR_SHARE = 0.001
"""Starting weight of every path but the anchor, which has the rest."""


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
