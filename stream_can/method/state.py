"""The arrays of a corrector: one table says what there is, of which type and shape.

Names are those of a snapshot. What belongs to a base carries its name behind a dot: ``b.vector``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.method.bases import BASES, MOST_C, MOST_LOG_B, MOST_T
from stream_can.method.paths import SEGMENTED_PATHS, anchor, split

__all__ = ["State", "check_state", "from_format_1", "grown", "new_state", "start_weights"]

Array = NDArray[np.float64]
State = dict[str, NDArray[Any]]

ANCHOR_SHARE = 0.001
"""Starting weight of every path but the anchor, which has the rest."""


HUGE = 1e30
"""More than any decayed sum comes to; far enough from where float32 ends."""
MOST_EVENTS = 1 << 53


class Spec(NamedTuple):
    """What an array is: "m" in a shape stands for the classes, "m+1", "paths" for what they say.

    "t" is the number of features of a base with columns, "t2" that of their pairs.
    """

    dtype: str
    shape: tuple[int | str, ...]
    least: float | tuple[float, ...] = 0
    """Of each number; what the loop clips to, where it does. Within this nothing becomes NaN."""
    most: float | tuple[float, ...] = HUGE

    def size(self, m: int, n_paths: int, n_columns: int = 0) -> tuple[int, ...]:
        """The shape in numbers."""
        t = 3 + 2 * n_columns
        sizes = {"m": m, "m+1": m + 1, "paths": n_paths, "t": t, "t2": t * (t + 1) // 2}
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.shape)


ARRAYS = {
    "weights": Spec("f8", ("paths",), 0, 1.001),
    "labels": Spec("f8", ("m",)),  # L, decayed counts
    # decayed log loss before and after (rounding takes it below 0), and their weight
    "recent": Spec("f8", (3,), (-1, -1, 0)),
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
    "ut": Spec("f8", ("t",), -MOST_T, MOST_T),  # the same and two for each column
    "Kt": Spec("f8", ("t2",), -HUGE),
    "c": Spec("f8", ("m",), -MOST_C, MOST_C),
    # curvatures of c and A; r (1 - r) is below 0 where r is 1 and an ulp
    "H": Spec("f8", ("m",), -1),
    "A": Spec("f4", ("m", "m"), -MOST_C, MOST_C),
    "G": Spec("f4", ("m", "m"), -1),
    "S": Spec("f8", ("m",)),  # decayed column sums of the confident rows
    "Q": Spec("f8", ("m+1",)),  # EM counts of the fitted base, then their number N
    "ref": Spec("f8", ("m",), 1e-30, 1),  # the class mix that EM starts from; divided by
}
"""What there is; from ``u`` on it belongs to a base, or to the last temperature."""

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
"""What there is once more where columns are declared."""
NEW_IN_2 = SHARED[4:]
"""What snapshots of format 1 did not have."""


def spec(name: str) -> Spec:
    """What the array of this name is; several features of a base have one array together."""
    kind, _, base = name.partition(".")
    if kind not in ("u", "K") or base not in BASES or BASES[base].features == 1:
        return ARRAYS[kind]
    return ARRAYS[f"{kind}t" if BASES[base].segmented else f"{kind}{BASES[base].features}"]


def new_state(m: int, paths: Sequence[str], n_columns: int = 0) -> State:
    """The arrays of a corrector that has seen nothing; the fitted base's are made by fit."""
    state = {
        name: np.zeros(spec(name).size(m, len(paths), n_columns), spec(name).dtype)
        for name in _needed(paths)
        if not name.endswith(".fitted") or name.startswith("S.")
    }
    for name, weights in zip(WEIGHTS, start_weights(paths), strict=False):
        state[name] = weights
    return state


WEIGHTS = ("weights", "weights.segmented")
"""Of the mixtures: without the segmented base, and with it."""


def start_weights(paths: Sequence[str]) -> list[Array]:
    """Weights before any label, nearly all on the anchor; with columns those of both mixtures."""
    found, first = [], paths.index(anchor(tuple(paths)))
    taking = [[path for path in paths if path not in SEGMENTED_PATHS], paths]
    for part in taking[: 2 if SEGMENTED_PATHS[0] in paths else 1]:
        w = np.array([ANCHOR_SHARE if path in part else 0.0 for path in paths])
        w[first] = 1 - ANCHOR_SHARE * (len(part) - 1)
        found.append(w)
    return found


def check_state(
    state: Mapping[str, NDArray[Any]], m: int, paths: Sequence[str], n_columns: int = 0
) -> None:
    """Raise ValueError where an array is missing, too many, or not what the table says."""
    needed = set(_needed(paths))
    optional = {name for base in _bases(paths) for name in BASES[base].optional}
    if missing := sorted(needed - state.keys()):
        raise ValueError(f"array {missing[0]} is missing")
    if strange := sorted(state.keys() - needed - optional):
        raise ValueError(f"array {strange[0]} does not belong to paths {', '.join(paths)}")
    for name, array in state.items():
        kind = spec(name)
        shape = kind.size(m, len(paths), n_columns)
        if array.dtype != np.dtype(kind.dtype) or array.shape != shape:
            raise ValueError(
                f"array {name} is {array.dtype} of shape {array.shape},"
                f" expected {np.dtype(kind.dtype)} of shape {shape}"
            )
        if not ((array >= kind.least) & (array <= kind.most)).all():
            raise ValueError(
                f"array {name} holds a number that is not from {kind.least} to {kind.most}"
            )
    for name in WEIGHTS:
        if name in state and not abs(state[name].sum() - 1) < 1e-9:
            raise ValueError(f"array {name} does not sum to 1")
    if ("Q" in state) != ("ref" in state):
        raise ValueError("arrays Q and ref go together")


def check_values(numbers: NDArray[Any]) -> Array:
    """The numbers of values as a snapshot has them: sums that are not negative, and odds."""
    if numbers.dtype != np.float64 or numbers.ndim != 2:
        raise ValueError(f"array values is {numbers.dtype} of shape {numbers.shape}")
    sums, odds = numbers[:, :-1], numbers[:, -1:]
    if not ((sums >= 0) & (sums <= HUGE)).all() or not (abs(odds) <= HUGE).all():
        raise ValueError("array values holds a number that no labels make")
    return np.ascontiguousarray(numbers)


def grown(state: Mapping[str, NDArray[Any]]) -> State:
    """The arrays with zeros for one more class, in the last row and column."""
    found: State = {}
    for name, array in state.items():
        found[name] = np.pad(array, [(0, int(size == "m")) for size in spec(name).shape])
        if "m+1" in spec(name).shape:  # the entry behind the classes stays the last
            found[name] = np.insert(array, -1, 0.0)
    return found


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


def _needed(paths: Sequence[str]) -> list[str]:
    """The names of the arrays that paths cannot do without."""
    names = list(SHARED)
    if SEGMENTED_PATHS[0] in paths:
        names += WITH_COLUMNS
        if "matrix" in _bases(paths):
            names += BASES["segmented"].optional
    for base in _bases(paths):
        names += [f"{name}.{base}" for name in BASES[base].arrays]
        if BASES[base].paths[1] in paths:
            names.append(f"S.{base}")
    return names


def _bases(paths: Sequence[str]) -> list[str]:
    """The bases of paths."""
    return list(dict.fromkeys(split(path)[0] for path in paths))
