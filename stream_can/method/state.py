"""The arrays of a corrector: one table says what there is, of which type and shape.

Names are those of a snapshot. What belongs to a base carries its name behind a dot: ``b.vector``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.method.paths import anchor, split

__all__ = ["State", "check_state", "from_format_1", "grown", "new_state", "start_weights"]

Array = NDArray[np.float64]
State = dict[str, NDArray[Any]]

ANCHOR_SHARE = 0.001
"""Starting weight of every path but the anchor, which has the rest."""


HUGE = 1e30
"""More than any decayed sum comes to; far enough from where float32 ends."""
MOST_EVENTS = 1 << 53


class Spec(NamedTuple):
    """What an array is: "m" in a shape stands for the classes, "m+1", "paths" for what they say."""

    dtype: str
    shape: tuple[int | str, ...]
    least: float | tuple[float, ...] = 0
    """Of each number; what the loop clips to, where it does. Within this nothing becomes NaN."""
    most: float | tuple[float, ...] = HUGE

    def size(self, m: int, n_paths: int) -> tuple[int, ...]:
        """The shape in numbers."""
        sizes = {"m": m, "m+1": m + 1, "paths": n_paths}
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
    "u": Spec("f8", (1,), -2, 2),  # log b
    "K": Spec("f8", (1,), -HUGE),  # its curvature; rounding takes it below 0
    "u3": Spec("f8", (3,), (-2, -3, -3), (2, 3, 3)),  # log b, t1, t2
    "K3": Spec("f8", (6,), -HUGE),  # their curvature, the upper triangle of a 3 x 3 matrix
    "c": Spec("f8", ("m",), -6, 6),
    # curvatures of c and A; r (1 - r) is below 0 where r is 1 and an ulp
    "H": Spec("f8", ("m",), -1),
    "A": Spec("f4", ("m", "m"), -6, 6),
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
NEW_IN_2 = SHARED[4:]
"""What snapshots of format 1 did not have."""
LEARNED = {"temperature": "uK", "vector": "uKcH", "matrix": "uKcHAG"}
"""The arrays of the bases that learn from labels."""
FITTED = ("u", "c", "A", "Q", "ref")
"""Those that :meth:`Corrector.fit` may leave to the frozen base; it has ``u`` at least."""


def spec(name: str) -> Spec:
    """What the array of this name is."""
    kind, _, base = name.partition(".")
    return ARRAYS[kind + "3" if kind in ("u", "K") and base in ("vector", "matrix") else kind]


def new_state(m: int, paths: Sequence[str]) -> State:
    """The arrays of a corrector that has seen nothing; the fitted base's are made by fit."""
    state = {
        name: np.zeros(spec(name).size(m, len(paths)), spec(name).dtype)
        for name in _needed(paths)
        if not name.endswith(".fitted") or name.startswith("S.")
    }
    state["weights"] = start_weights(paths)
    return state


def start_weights(paths: Sequence[str]) -> Array:
    """Weights before any label: nearly all on the anchor."""
    w = np.full(len(paths), ANCHOR_SHARE)
    w[paths.index(anchor(tuple(paths)))] = 1 - ANCHOR_SHARE * (len(paths) - 1)
    return w


def check_state(state: Mapping[str, NDArray[Any]], m: int, paths: Sequence[str]) -> None:
    """Raise ValueError where an array is missing, too many, or not what the table says."""
    needed = set(_needed(paths))
    optional = {_fitted(name) for name in FITTED} if "fitted" in paths else set[str]()
    if missing := sorted(needed - state.keys()):
        raise ValueError(f"array {missing[0]} is missing")
    if strange := sorted(state.keys() - needed - optional):
        raise ValueError(f"array {strange[0]} does not belong to paths {', '.join(paths)}")
    for name, array in state.items():
        kind = spec(name)
        shape = kind.size(m, len(paths))
        if array.dtype != np.dtype(kind.dtype) or array.shape != shape:
            raise ValueError(
                f"array {name} is {array.dtype} of shape {array.shape},"
                f" expected {np.dtype(kind.dtype)} of shape {shape}"
            )
        if not ((array >= kind.least) & (array <= kind.most)).all():
            raise ValueError(
                f"array {name} holds a number that is not from {kind.least} to {kind.most}"
            )
    if not abs(state["weights"].sum() - 1) < 1e-9:
        raise ValueError("array weights does not sum to 1")
    if ("Q" in state) != ("ref" in state):
        raise ValueError("arrays Q and ref go together")


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
        learned = {"u": array[0], "K": array[1] - 10} if base in LEARNED else {"u": array[0]}
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
    for base in dict.fromkeys(split(path)[0] for path in paths):
        names += [f"{name}.{base}" for name in LEARNED.get(base, "")]
        if base == "fitted":
            names.append("u.fitted")
        if any(split(path) == (base, True) for path in paths):
            names.append(f"S.{base}")
    return names


def _fitted(name: str) -> str:
    """What an array of the fitted base is called; those of EM are one of a kind."""
    return name if name in ("Q", "ref") else f"{name}.fitted"
