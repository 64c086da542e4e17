"""The arrays of a corrector: one table says what there is, of which type and shape.

Names are those of a snapshot. What belongs to a base carries its name behind a dot: ``b.vector``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.method.paths import anchor, split

__all__ = ["State", "check_state", "grown", "new_state", "start_weights"]

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
    "b": Spec("f8", (2,), (-2, 0), (2, HUGE)),  # log b; its curvature with the prior's precision
    "c": Spec("f8", ("m",), -6, 6),
    # curvatures of c and A; r (1 - r) is below 0 where r is 1 and an ulp
    "H": Spec("f8", ("m",), -1),
    "A": Spec("f4", ("m", "m"), -6, 6),
    "G": Spec("f4", ("m", "m"), -1),
    "S": Spec("f8", ("m",)),  # decayed column sums of the confident rows
    "Q": Spec("f8", ("m+1",)),  # EM counts of the fitted base, then their number N
    "ref": Spec("f8", ("m",), 1e-30, 1),  # the class mix that EM starts from; divided by
}
"""What there is; ``b`` and below belong to a base."""

SHARED = ("weights", "labels", "recent", "counts")
LEARNED = {"temperature": "b", "vector": "bcH", "matrix": "bcHAG"}
"""The arrays of the bases that learn from labels."""
FITTED = ("b", "c", "A", "Q", "ref")
"""Those that :meth:`Corrector.fit` may leave to the frozen base; it has ``b`` at least."""


def new_state(m: int, paths: Sequence[str]) -> State:
    """The arrays of a corrector that has seen nothing; the fitted base's are made by fit."""
    state = {
        name: np.zeros(ARRAYS[name.partition(".")[0]].size(m, len(paths)), _dtype(name))
        for name in _needed(paths)
        if not name.endswith(".fitted") or name.startswith("S.")
    }
    state["weights"] = start_weights(paths)
    for name in state:
        if name.startswith("b."):
            state[name][1] = 10.0
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
        spec = ARRAYS[name.partition(".")[0]]
        shape = spec.size(m, len(paths))
        if array.dtype != _dtype(name) or array.shape != shape:
            raise ValueError(
                f"array {name} is {array.dtype} of shape {array.shape},"
                f" expected {_dtype(name)} of shape {shape}"
            )
        if not ((array >= spec.least) & (array <= spec.most)).all():
            raise ValueError(
                f"array {name} holds a number that is not from {spec.least} to {spec.most}"
            )
    if not abs(state["weights"].sum() - 1) < 1e-9:
        raise ValueError("array weights does not sum to 1")
    if ("Q" in state) != ("ref" in state):
        raise ValueError("arrays Q and ref go together")


def grown(state: Mapping[str, NDArray[Any]]) -> State:
    """The arrays with zeros for one more class, in the last row and column."""
    found: State = {}
    for name, array in state.items():
        shape = ARRAYS[name.partition(".")[0]].shape
        found[name] = np.pad(array, [(0, int(size == "m")) for size in shape])
    return found


def _needed(paths: Sequence[str]) -> list[str]:
    """The names of the arrays that paths cannot do without."""
    names = list(SHARED)
    for base in dict.fromkeys(split(path)[0] for path in paths):
        names += [f"{name}.{base}" for name in LEARNED.get(base, "")]
        if base == "fitted":
            names.append("b.fitted")
        if any(split(path) == (base, True) for path in paths):
            names.append(f"S.{base}")
    return names


def _fitted(name: str) -> str:
    """What an array of the fitted base is called; those of EM are one of a kind."""
    return name if name in ("Q", "ref") else f"{name}.fitted"


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ARRAYS[name.partition(".")[0]].dtype)
