"""Arrays of a corrector: one table with types and shapes.

Names are those in snapshots. An array of a base has the base's name after a dot: ``b.vector``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.method.bases import (
    BASES,
    CLASS_MIX,
    FITTED_PATHS,
    MOST_C,
    MOST_LOG_B,
    MOST_T,
    WHOLE_RIDGE,
)
from stream_can.method.checks import within
from stream_can.method.paths import SEGMENTED_PATHS, anchor, split
from stream_can.method.sums import EXPERTS, MOVING_EXPERTS, WEIGHTS_OF_EXPERTS

__all__ = [
    "FEW_ROWS", "SETS", "State", "bytes_kept", "bytes_needed", "check_state", "even_weights",
    "grown", "judged", "needed", "new_sets", "new_state", "rows_at_once", "spec", "start_weights",
]  # fmt: skip

Array = NDArray[np.float64]
State = dict[str, NDArray[Any]]

SHARE = 0.001
"""Initial weight of every path but the anchor, which has the rest,"""
LIKELY_SHARE = {"centred": 0.2, "shared": 0.2}
"""and of these, until `fit`: few numbers, soon learned."""


FEW_ROWS = 64
MOST_AT_ONCE = 128 << 20
"""Bytes of rows processed together, if they are more than `FEW_ROWS`."""
BYTES_OF_ROW = 40
"""Bytes of a class in a row: raw and sent, and at most six in single precision."""
HUGE = 1e30
"""Upper bound of decayed sums; far below the range of float32."""
MOST_EVENTS = 1 << 53
BINS = 15
"""Number of bins of the top class's probability."""


class Spec(NamedTuple):
    """An array of the state; in shapes "m" stands for the number of classes, "m+1", "paths"
    likewise.

    "t" is the number of features of a base with columns, "t2" that of their pairs.
    """

    dtype: str
    shape: tuple[int | str, ...]
    least: float | tuple[float, ...] = 0
    """Bounds of each number, those to which the loop clips, if any: so nothing becomes NaN."""
    most: float | tuple[float, ...] = HUGE

    def size(self, m: int, n_paths: int, n_columns: int = 0) -> tuple[int, ...]:
        """The shape in numbers."""
        t = 3 + 2 * n_columns
        sizes = {"m": m, "m+1": m + 1, "paths": n_paths, "t": t, "t2": t * (t + 1) // 2}
        sizes["bins"] = BINS * (2 if m == 2 else 1)  # of two classes each has bins
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.shape)


ARRAYS = {
    "weights": Spec("f8", ("paths",), 0, 1.001),
    "labels": Spec("f8", ("m",)),  # L, decayed counts
    # decayed log loss before and after (rounding takes it below 0), their weight, the anchor's
    "recent": Spec("f8", (4,), (-1, -1, 0, -1)),
    "counts": Spec("i8", (3,), 0, MOST_EVENTS),  # predictions, labels, those with their prediction
    "mean": Spec("f8", ("m+1",)),  # M, decayed sum of the predictions, then their number N
    "predicted": Spec("f8", ("m",)),  # N_j, decayed counts of rows predicted as j
    "labelled": Spec("f8", ("m+1",)),  # n_j, decayed counts of their labels, then their sum n
    "heard": Spec("i8", ("m",), -1, 1),  # 1 a label has come, 0 none has, -1 none has: silent
    "agreement": Spec("f8", (3,)),  # labels that are the argmax, that are not, sum of their p_j
    "odds": Spec("f8", (2,), -HUGE),  # log odds of mixture and tempered mixture against the anchor
    "u": Spec("f8", (1,), -MOST_LOG_B, MOST_LOG_B),  # log b
    "K": Spec("f8", (1,), -HUGE),  # its curvature; rounding takes it below 0
    # log b, t1, t2
    "u3": Spec("f8", (3,), (-MOST_LOG_B, -MOST_T, -MOST_T), (MOST_LOG_B, MOST_T, MOST_T)),
    "K3": Spec("f8", (6,), -HUGE),  # their curvature, the upper triangle of a 3 x 3 matrix
    "u4": Spec("f8", (4,), (-MOST_LOG_B, *[-MOST_T] * 3), (MOST_LOG_B, *[MOST_T] * 3)),  # and t3
    "K4": Spec("f8", (10,), -HUGE),
    "ut": Spec("f8", ("t",), -MOST_T, MOST_T),  # the same and two for each column
    "Kt": Spec("f8", ("t2",), -HUGE),
    "c": Spec("f8", ("m",), -MOST_C, MOST_C),
    # curvatures of c and A; r (1 - r) is below 0 where r is 1 and an ulp
    "H": Spec("f8", ("m",), -1),
    "A": Spec("f4", ("m", "m"), -MOST_C, MOST_C),
    "G": Spec("f4", ("m", "m"), -1),
    # of a whole matrix: moments of its inputs, on and below the diagonal; their mean inverted;
    # the inputs' squares, how many labels those are of, and the moments; labels, and at the inverse
    "C": Spec("f4", ("m", "m"), -HUGE),
    "P": Spec("f4", ("m", "m"), -HUGE),
    "s": Spec("f8", (3,), (0, 1e-300, 0)),
    "n": Spec("i8", (2,), 0, MOST_EVENTS),
    # what was predicted of late: sums over the last rows, and over those of the last labels, each
    # with its number; then sums of the squares of their weights
    "late.rows": Spec("f8", ("m+1",)),
    "late.labels": Spec("f8", ("m+1",)),
    "late.rows.squares": Spec("f8", (1,)),
    "late.labels.squares": Spec("f8", (1,)),
    "squares": Spec("f8", ("m+1",)),  # decayed sum of the predictions' squares, then N
    "S": Spec("f8", ("m",)),  # decayed column sums of the confident rows
    "odds.moving": Spec("f8", (1,), -HUGE),  # and of the rows that come behind those
    "odds.plain": Spec("f8", (1,), -HUGE),
    "odds.raw": Spec("f8", (1,), -HUGE),
    "odds.calibrated": Spec("f8", (1,), -HUGE),
    "bins": Spec("f8", (3, "bins")),  # by the top of rows: their labels, the right ones, their top
    # the class mix without labels: what an expert counts, then the number of rows N
    "Q": Spec("f8", ("m+1",)),
    "ref": Spec("f8", ("m",), 1e-30, 1),  # the mix that the fitted base's start from; divided by
    "W": Spec("f8", (1 + len(EXPERTS),), 0, 1.001),  # weights: of none, then of each expert
    "W.moving": Spec("f8", (1 + len(MOVING_EXPERTS),), 0, 1.001),
    "W.rival": Spec("f8", (1,), 0, 1.001),  # and of what explains rows without a mix
    "held": Spec("f8", ("m",), 1),  # by which factor a class of the mix may be off ref
    # its cells: shares of validation's rows, edges of their thirds, and counts of rows in each
    "cells": Spec("f8", ("m", 3), 1e-30, 1),
    "edges": Spec("f8", (2,), 0, 1.001),
    "rival": Spec("f8", ("m+1",)),
    "V": Spec("f8", ("m+1",)),  # decayed sum of the anchor's rows, then their number
    "sharp": Spec("f8", ("m",), 0, 1.001),  # mean |r|^2 of the validation rows of each class
    # prediction sets: scores of labels, what rows believe in, and what method/sets.h says of them
    "sets.labels": Spec("f8", (560,), 0, 1e209),
    "sets.belief": Spec("f8", (560,), 0, 1e209),
    "sets.numbers": Spec(
        "f8", (6,), (1, 1, 0, -1e6, 0, 0), (1e201, 1e201, 1e209, 1e6, 1e209, 1e18)
    ),
    "sets.counts": Spec("i8", (2,), 0, MOST_EVENTS),  # rows, labels
    "D": Spec("f8", (2,), (-HUGE, 0)),  # decayed sum of |r|^2 less than that, then its weight
}
"""Arrays of the state; from ``u`` on one per base, or for the last temperature."""

SHARED = (
    "weights",
    "labels",
    "recent",
    "counts",
    "mean",
    "predicted",
    "labelled",
    "heard",
    "agreement",
    "odds",
    "u.last",
    "K.last",
)
WITH_COLUMNS = tuple(f"{name}.segmented" for name in ("weights", "odds", "u.last", "K.last"))
"""Arrays that exist a second time where columns are declared."""
SETS = ("sets.labels", "sets.belief", "sets.numbers", "sets.counts")
"""Arrays of prediction sets."""
JUDGED = ("odds.plain", "odds.calibrated", "bins")
"""Arrays that exist where several paths are mixed,"""
LATE = (
    "late.rows", "late.rows.squares", "late.labels", "late.labels.squares", "squares",
)  # fmt: skip
"""and also, by which a stale mix is noticed,"""
MOVING = ("odds.moving", "odds.raw", "V", "Q.moving", "W.moving")
"""and without the fitted base."""


def spec(name: str) -> Spec:
    """Describe the array of this name; several features of a base share an array."""
    if name in ARRAYS:
        return ARRAYS[name]
    kind, _, base = name.partition(".")
    if kind not in ("u", "K") or base not in BASES or BASES[base].features == 1:
        return ARRAYS[kind]
    return ARRAYS[f"{kind}t" if BASES[base].segmented else f"{kind}{BASES[base].features}"]


def bytes_kept(m: int, paths: Sequence[str], n_columns: int = 0) -> int:
    """Bytes of a corrector's arrays."""
    kinds = [spec(name) for name in needed(paths)]
    return sum(
        np.dtype(kind.dtype).itemsize * math.prod(kind.size(m, len(paths), n_columns))
        for kind in kinds
    )


def bytes_needed(m: int, paths: Sequence[str], n_columns: int = 0) -> int:
    """Bytes of a corrector's arrays, and of `FEW_ROWS` being processed."""
    return bytes_kept(m, paths, n_columns) + FEW_ROWS * m * BYTES_OF_ROW


def rows_at_once(m: int) -> int:
    """Number of rows of m classes processed together."""
    return max(FEW_ROWS, MOST_AT_ONCE // (m * BYTES_OF_ROW))


def new_state(m: int, paths: Sequence[str], n_columns: int = 0) -> State:
    """Initial arrays of a corrector; those of the fitted base come from fit."""
    state = {
        name: np.zeros(spec(name).size(m, len(paths), n_columns), spec(name).dtype)
        for name in needed(paths)
        if not name.endswith(".fitted") or name.startswith("S.")
    }
    for name, weights in zip(WEIGHTS, start_weights(paths), strict=False):
        state[name] = weights
    if "P.full" in state:
        state["s.full"][:2] = 1
        state["P.full"] = new_precision(m)
    return state | even_weights(state)


def new_precision(m: int) -> NDArray[np.float32]:
    """Initial P of a whole matrix, where its inputs are as if they had been of unit variance."""
    return np.eye(m, dtype=np.float32) * np.float32(1 / (1 + WHOLE_RIDGE))


def new_sets() -> State:
    """Initial arrays of prediction sets."""
    state = {name: np.zeros(spec(name).size(0, 0), spec(name).dtype) for name in SETS}
    state["sets.numbers"][:2] = 1
    return state


def even_weights(names: Iterable[str]) -> State:
    """Initial, equal weights of the experts on the class mix, for arrays of these names."""
    sizes = {name: ARRAYS[name].size(0, 0)[0] for name in WEIGHTS_OF_EXPERTS if name in names}
    return {name: np.full(n, 1 / n) for name, n in sizes.items()}


def judged(m: int) -> State:
    """Initial arrays by which a mixture of paths is judged, and its mix held to be stale."""
    return {name: np.zeros(spec(name).size(m, 0)) for name in (*JUDGED, *LATE)}


WEIGHTS = ("weights", "weights.segmented")
"""Weights of the mixtures: without the segmented base, and with it."""


def start_weights(paths: Sequence[str]) -> list[Array]:
    """Initial weights, nearly all on the anchor; with columns those of both mixtures."""
    found, first = [], paths.index(anchor(tuple(paths)))
    taking = [[path for path in paths if path not in SEGMENTED_PATHS], paths]
    for part in taking[: 2 if SEGMENTED_PATHS[0] in paths else 1]:
        likely = {} if FITTED_PATHS[0] in paths else LIKELY_SHARE
        w = np.array([likely.get(path, SHARE) if path in part else 0.0 for path in paths])
        w[first] += 1 - w.sum()
        found.append(w)
    return found


def check_state(
    state: Mapping[str, NDArray[Any]],
    m: int,
    paths: Sequence[str],
    n_columns: int = 0,
    sets: bool = False,
) -> None:
    """Raise ValueError where an array is missing, unexpected or invalid."""
    expected, wanted = _expected(m, tuple(paths), n_columns, sets)
    if missing := sorted(wanted - state.keys()):
        raise ValueError(f"array {missing[0]} is missing")
    if strange := sorted(state.keys() - expected.keys()):
        raise ValueError(f"array {strange[0]} does not belong to paths {', '.join(paths)}")
    for name, array in state.items():
        dtype, shape, bounds = expected[name]
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(
                f"array {name} is {array.dtype} of shape {array.shape},"
                f" expected {dtype} of shape {shape}"
            )
        if not within(array, bounds):
            kind = spec(name)
            raise ValueError(
                f"array {name} holds a number that is not from {kind.least} to {kind.most}"
            )
    for name in (*WEIGHTS, *WEIGHTS_OF_EXPERTS):
        rival = state.get("W.rival", 0.0) if name == "W" else 0.0
        if name in state and not abs(state[name].sum() + np.sum(rival) - 1) < 1e-9:
            raise ValueError(f"array {name} does not sum to 1")
    if 0 < len([name for name in CLASS_MIX if name in state]) < len(CLASS_MIX):
        raise ValueError(f"arrays {', '.join(CLASS_MIX)} go together")


@lru_cache(maxsize=64)
def _expected(
    m: int, paths: tuple[str, ...], n_columns: int, sets: bool
) -> tuple[dict[str, tuple[np.dtype[Any], tuple[int, ...], Array]], set[str]]:
    """Type, shape and bounds of each array that may be there; the names of those that must."""
    wanted = {*needed(paths), *(SETS if sets else ())}
    found = {}
    for name in wanted.union(*(BASES[base].optional for base in _bases(paths))):
        kind = spec(name)
        bounds = np.stack(np.broadcast_arrays(kind.least, kind.most)).astype(float).reshape(2, -1)
        found[name] = np.dtype(kind.dtype), kind.size(m, len(paths), n_columns), bounds
    return found, wanted


def check_values(numbers: NDArray[Any]) -> Array:
    """Check numbers of values in a snapshot: nonnegative sums, and odds."""
    if numbers.dtype != np.float64 or numbers.ndim != 2:
        raise ValueError(f"array values is {numbers.dtype} of shape {numbers.shape}")
    sums, odds = numbers[:, :-1], numbers[:, -1:]
    if not ((sums >= 0) & (sums <= HUGE)).all() or not (abs(odds) <= HUGE).all():
        raise ValueError("array values holds a number that no labels make")
    return np.ascontiguousarray(numbers)


def grown(state: Mapping[str, NDArray[Any]]) -> State:
    """The arrays extended by zeros for one more class, in the last row and column."""
    m = len(state["labels"]) + 1
    found: State = {}
    for name, array in state.items():
        if name == "bins":
            found[name] = _bins_of(array, m)
            continue
        found[name] = np.pad(array, [(0, int(size == "m")) for size in spec(name).shape])
        if "m+1" in spec(name).shape:  # the entry after the classes stays last
            found[name] = np.insert(array, -1, 0.0)
        if name == "P.full":
            found[name][-1, -1] = new_precision(1)[0, 0]
    return found


def _bins_of(array: NDArray[Any], m: int) -> NDArray[Any]:
    """The bins for m classes: two classes have bins of their own."""
    if m == 2:  # for the first class, which was always on top while alone
        return np.concatenate([array, np.zeros_like(array)], axis=1)
    return array[:, :BINS] + array[:, BINS:] if m == 3 else array


def needed(paths: Sequence[str]) -> list[str]:
    """Names of the arrays that paths need."""
    names = list(SHARED)
    if len(paths) > 1:
        names += JUDGED + LATE
        names += () if FITTED_PATHS[0] in paths else MOVING
    if SEGMENTED_PATHS[0] in paths:
        names += WITH_COLUMNS
        if "matrix" in _bases(paths):
            names += BASES["segmented"].optional
    for base in _bases(paths):
        names += [f"{name}.{base}" for name in BASES[base].arrays]
        if BASES[base].path_with_can in paths:
            names.append(f"S.{base}")
    return names


def _bases(paths: Sequence[str]) -> list[str]:
    """The bases of paths."""
    return list(dict.fromkeys(split(path)[0] for path in paths))
