"""Guards: how far a corrector that no longer moves is believed, in numbers of its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def freshness(state: Mapping[str, Any], m: int) -> float:
    """f of docs/method.md: how far what labels taught of the class mix is believed in."""
    rows, labels = state["late.rows"], state["late.labels"]
    if rows[-1] <= 20 or state["late.labels.number"][0] <= 20:
        return 1.0
    off = (rows[:-1] / rows[-1] - labels[:-1] / labels[-1]) ** 2
    n, mean = state["mean"][-1], state["mean"][:-1]
    variance = np.maximum(state["squares"][:-1] / n - (mean / n) ** 2, 0) + 0.001 / m
    share = state["late.rows.squares"][0] / rows[-1] ** 2
    share += state["late.labels.squares"][0] / labels[-1] ** 2
    return float(np.clip((8 - (off / variance).mean() / share) / 4, 0, 1))


def trust_by_class(state: Mapping[str, Any], m: int) -> Array:
    """λ of a row by its likeliest class, shape (m,)."""
    agree, differ, sure = state["agreement"]
    n, N = state["labelled"][-1], state["mean"][-1]
    if (agree == 0 and sure > 5) or (differ == 0 and agree - sure > 5):
        return np.zeros(m)
    labels, heard = state["late.labels"], state["heard"] == 1
    if labels[-1] > 0 and n < 0.9 * N:
        each = state["late.labels.number"][0] / labels[-1]
        unheard = labels[:-1][~heard & (each * labels[:-1] > 5)].sum() / labels[-1]
        if unheard > (0.4 if heard.sum() > 1 else 0):
            return np.zeros(m)
    expected = n * state["predicted"] / N if N > 0 else np.zeros(m)
    return np.asarray(np.minimum(1, 4 * (state["labelled"][:-1] + 1) / (expected + 1)))
