"""The arrays of correctors of older releases: what they knew; what is new, as at the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.method.bases import BASES, FITTED_PATHS
from stream_can.method.state import (
    JUDGED,
    MOVING,
    SHARED,
    State,
    even_weights,
    needed,
    spec,
    start_weights,
)
from stream_can.method.sums import EXPERTS

__all__ = ["from_0_2", "from_format_1", "judged_anew"]

NEW_IN_2 = SHARED[4:]
"""What snapshots of format 1 did not have."""
NEW_EXPERTS = (*list(EXPERTS)[1:], "W")
"""What follows the class mix after fit, and did not in release 0.2."""


def from_0_2(state: Mapping[str, NDArray[Any]], m: int, paths: Sequence[str]) -> State:
    """The arrays of a snapshot of format 1 or 2: what is new in 0.3 as at the start.

    Where `fit` was called then, no guard watches the class mix: how sharp the validation rows were
    is not known any more.
    """
    new = [name for name in needed(paths) if name in (*JUDGED, *MOVING)]
    if "Q" in state:
        new += NEW_EXPERTS
    if strange := sorted(state.keys() & {*new, "sharp", "D"}):
        raise ValueError(f"array {strange[0]} is of a later format")
    found = {name: np.zeros(spec(name).size(m, len(paths)), spec(name).dtype) for name in new}
    return {**state, **found, **even_weights(found)}


def judged_anew(state: Mapping[str, NDArray[Any]], m: int, paths: Sequence[str]) -> State:
    """The arrays with all that judging has learned as at the start.

    That is what release 0.2 learns otherwise from the same labels and rows; the rest is the same.
    """
    names = {"recent", "odds", "D", *NEW_EXPERTS, *JUDGED, *MOVING} & state.keys()
    anew = {name: np.zeros_like(state[name]) for name in names}
    if FITTED_PATHS[0] in paths:  # its rows are others, and so is what weighs and tempers them
        anew |= {name: np.zeros_like(state[name]) for name in ("u.last", "K.last")}
        anew["weights"] = start_weights(paths)[0]
    return {**state, **anew, **even_weights(anew)}


def from_format_1(state: Mapping[str, NDArray[Any]], m: int) -> State:
    """The arrays of a snapshot of release 0.1: what it knew, and what is new since as at the start.

    It kept log b and, for bases that learn, 10 plus its curvature in one array.
    """
    found: State = {name: np.zeros(spec(name).size(m, 0), spec(name).dtype) for name in NEW_IN_2}
    for name, array in state.items():
        kind, _, base = name.partition(".")
        if name in NEW_IN_2 or kind in ("u", "K"):
            raise ValueError(f"array {name} is of a later format")
        if kind != "b":
            found[name] = array
            continue
        if array.shape != (2,):
            raise ValueError(f"array {name} has shape {array.shape}, expected (2,)")
        learned = {"u": array[0]}
        if base in BASES and BASES[base].learns:
            learned["K"] = array[1] - 10
        for new, value in learned.items():
            kind = f"{new}.{base}"
            found[kind] = np.zeros(spec(kind).size(m, 0))
            found[kind][0] = value
    if "labels" in state:
        found["heard"] = (state["labels"] > 0).astype(np.int64)
    return found
