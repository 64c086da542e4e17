from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

UNCERTAINTIES: tuple[str, ...]

class Mode(IntEnum):
    CORRECT = 0
    OBSERVE = 1
    PROCESS = 2
    EXPLAIN = 3

class Lock:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

class Kernel:
    successor: Kernel | None
    m: int
    n_paths: int
    g: float
    def __init__(
        self,
        m: int,
        paths: tuple[str, ...],
        state: dict[str, NDArray[Any]],
        *,
        lock: Lock | None = None,
        index: dict[Any, int] | None = None,
        train: Array,
        half_life: float,
        uncertainty: str,
        k: int,
        threshold: float,
        pseudo_count: float,
        prior_strength: float,
        start_weights: Array,
        precision: float = 5.0,
        exponent: float = 0.25,
        passes: float = 1.0,
        shared_features: bool = True,
    ) -> None: ...
    @property
    def prior(self) -> Array: ...
    @property
    def final_weights(self) -> tuple[float, float, float]: ...
    @property
    def coverage(self) -> float: ...
    def rows(self, P: ArrayLike, ndim: int, mode: Mode, receipt: bool = False) -> Any: ...
    def play(
        self,
        P: ArrayLike,
        first: int,
        ys: NDArray[np.int64],
        rows: NDArray[np.int64],
        due: NDArray[np.int64],
        known: NDArray[np.float32] | None,
        receipt: bool,
        explain: bool,
    ) -> tuple[Array, NDArray[np.float32] | None, Array | None]: ...
    def correct_and_sum(self, P: ArrayLike, sums: Array, receipt: bool) -> Any: ...
    def changed(self) -> None: ...
    def learn_one(self, p: ArrayLike | None, y: int, known: NDArray[np.float32] | None) -> None: ...
    def learn_many(
        self, P: ArrayLike | None, ys: NDArray[np.int64], known: NDArray[np.float32] | None
    ) -> None: ...

def bad_rows(P: Array, names: Sequence[Any] | None = None) -> dict[int, str]: ...
def checked(P: ArrayLike) -> Array: ...
def normalised(P: ArrayLike) -> Array: ...
def uncertainty(P: Array, kind: str, k: int) -> Array: ...
