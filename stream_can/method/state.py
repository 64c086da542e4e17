"""State: the arrays of a corrector as it begins, grows, and is read from a snapshot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.method.arrays import ARRAYS, BINS, HUGE, MOST_EVENTS, spec
from stream_can.method.bases import (
    BASES,
    CLASS_MIX,
    FITTED_PATHS,
    SEGMENTED_PATHS,
    WHOLE_RIDGE,
)
from stream_can.method.checks import within
from stream_can.method.paths import anchor, split
from stream_can.method.sums import WEIGHTS_OF_EXPERTS

__all__ = [
    "FEW_ROWS", "MOST_EVENTS", "SETS", "State", "bytes_kept", "bytes_needed", "check_state",
    "even_weights", "grown", "judged", "needed", "new_sets", "new_state", "rows_at_once",
    "start_weights",
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


SHARED = (
    "weights", "labels", "recent", "counts", "mean", "predicted", "labelled", "heard",
    "agreement", "heaviest", "odds", "u.last", "K.last",
)  # fmt: skip
WITH_COLUMNS = tuple(f"{name}.segmented" for name in ("weights", "odds", "u.last", "K.last"))
"""Arrays that exist a second time where columns are declared."""
SETS = ("sets.labels", "sets.belief", "sets.numbers", "sets.counts", "sets.groups")
"""Arrays of prediction sets."""
JUDGED = ("odds.plain", "odds.calibrated", "bins")
"""Arrays that exist where several paths are mixed,"""
LATE = (
    "late.rows", "late.rows.squares", "late.labels", "late.labels.squares", "late.labels.number",
    "squares",
)  # fmt: skip
"""and also, by which a stale mix is noticed,"""
KNOWN = ("odds.known",)
"""and where the class mix of the stream is known,"""
MOVING = ("odds.moving", "odds.raw", "V", "Q.moving", "W.moving")
"""and without the fitted base."""


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
    state["heaviest"][:] = 1
    if "P.full" in state:
        state["s.full"][:2] = 1
        state["P.full"] = new_precision(m)
    return state | even_weights(state)


def new_precision(m: int) -> NDArray[np.float32]:
    """Initial P of a whole matrix, where its inputs are as if they had been of unit variance."""
    return np.eye(m, dtype=np.float32) * np.float32(1 / (1 + WHOLE_RIDGE))


def new_sets(m: int) -> State:
    """Initial arrays of prediction sets."""
    state = {name: np.zeros(spec(name).size(m, 0), spec(name).dtype) for name in SETS}
    state["sets.numbers"][:2] = 1
    return state


def new_known() -> State:
    """Initial arrays of the row at a known class mix."""
    return {name: np.zeros(spec(name).size(0, 0)) for name in KNOWN}


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
    mixtures, first = [], paths.index(anchor(tuple(paths)))
    taking = [[path for path in paths if path not in SEGMENTED_PATHS], paths]
    for part in taking[: 2 if SEGMENTED_PATHS[0] in paths else 1]:
        likely = {} if FITTED_PATHS[0] in paths else LIKELY_SHARE
        w = np.array([likely.get(path, SHARE) if path in part else 0.0 for path in paths])
        w[first] += 1 - w.sum()
        mixtures.append(w)
    return mixtures


def check_state(
    state: Mapping[str, NDArray[Any]],
    m: int,
    paths: Sequence[str],
    n_columns: int = 0,
    sets: bool = False,
    known_mix: bool = False,
) -> None:
    """Raise ValueError where an array is missing, unexpected or invalid."""
    expected, required = _expected(m, tuple(paths), n_columns, sets, known_mix)
    if missing := sorted(required - state.keys()):
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
    m: int, paths: tuple[str, ...], n_columns: int, sets: bool, known_mix: bool
) -> tuple[dict[str, tuple[np.dtype[Any], tuple[int, ...], Array]], set[str]]:
    """Type, shape and bounds of each array that may be there; the names of those that must."""
    required = {*needed(paths), *(SETS if sets else ()), *(KNOWN if known_mix else ())}
    expected = {}
    for name in required.union(*(BASES[base].optional for base in _bases(paths))):
        kind = spec(name)
        bounds = np.stack(np.broadcast_arrays(kind.least, kind.most)).astype(float).reshape(2, -1)
        expected[name] = np.dtype(kind.dtype), kind.size(m, len(paths), n_columns), bounds
    return expected, required


def check_values(numbers: NDArray[Any]) -> Array:
    """Check numbers of values in a snapshot: nonnegative sums, odds, and what sets keep."""
    if numbers.dtype != np.float64 or numbers.ndim != 2:
        raise ValueError(f"array values is {numbers.dtype} of shape {numbers.shape}")
    sums, others = numbers[:, :-3], numbers[:, -3:]
    if not ((sums >= 0) & (sums <= HUGE)).all() or not (abs(others) <= HUGE).all():
        raise ValueError("array values holds a number that no labels make")
    return np.ascontiguousarray(numbers)


def grown(state: Mapping[str, NDArray[Any]]) -> State:
    """The arrays extended by zeros for one more class, in the last row and column."""
    m = len(state["labels"]) + 1
    larger: State = {}
    for name, array in state.items():
        if name == "bins":
            larger[name] = _bins_of(array, m)
            continue
        larger[name] = np.pad(array, [(0, int(size == "m")) for size in spec(name).shape])
        if "m+1" in spec(name).shape:  # the entry after the classes stays last
            larger[name] = np.insert(array, -1, 0.0)
        if name == "P.full":
            larger[name][-1, -1] = new_precision(1)[0, 0]
    return larger


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
