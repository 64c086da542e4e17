"""Decayed sums of rows: what a corrector that did not see them needs to have observed them.

Rows that many processes correct with one state change nothing there; each adds up what observing
them would have added, and the sums are added to the state later, everywhere in the same order.

Sums are an array, shape (parts, m + 1): the decayed sum of the rows and their decayed number; the
decayed counts of their likeliest classes and their number; for each base with CAN the decayed sum
of its confident rows and their number; with EM the decayed sum of the fitted rows and its number.
Where each row is added by itself the state is, to the bit, what observing it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.method.paths import BASES

__all__ = ["EM_DECAY", "add", "merge", "parts"]

Array = NDArray[np.float64]

EM_DECAY = 2.0 ** (-1.0 / 1000)
"""Of the EM counts of the fitted base, for each row."""


def parts(state: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """The arrays of a state that rows add to, in the order of sums."""
    confident = (f"S.{base}" for base in BASES if f"S.{base}" in state)
    return ("mean", "predicted", *confident, *(("Q",) if "Q" in state else ()))


def power(g: float, n: int) -> float:
    """g to the power of n, with the same bits on every machine; that of C's library differs."""
    result = 1.0
    while n:
        if n & 1:
            result *= g
        g *= g
        n >>= 1
    return result


def _decays(names: Sequence[str], sums: Array, g: float) -> list[float]:
    """What earlier sums of each part have decayed to once these rows went by."""
    rows = int(sums[1, -1])
    found = {"mean": power(g, rows), "Q": power(EM_DECAY, rows)}
    found["predicted"] = found["mean"]
    return [
        power(g, int(part[-1])) if name.startswith("S.") else found[name]
        for name, part in zip(names, sums, strict=True)
    ]


def add(state: Mapping[str, NDArray[Any]], sums: Array, g: float) -> None:
    """Change a state, in place, as if the rows behind the sums went by now."""
    names = parts(state)
    for name, part, decay in zip(names, sums, _decays(names, sums, g), strict=True):
        array = state[name]
        array *= decay
        array += part[: len(array)]
    rows = int(sums[1, -1])
    state["labelled"][:] *= power(g, rows)
    state["counts"][0] += rows


def merge(names: Sequence[str], into: Array, later: Array, g: float) -> None:
    """Change sums, in place, to those of their rows and then of later ones."""
    numbers = into[:, -1] + later[:, -1]
    into *= np.array(_decays(names, later, g))[:, None]
    into += later
    for i, name in enumerate(names):
        if name == "predicted" or name.startswith("S."):  # counts that do not decay
            into[i, -1] = numbers[i]
