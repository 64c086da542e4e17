from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.method.segments import Texts
from stream_can.method.values import Values

Array = NDArray[np.float64]

class Mode(IntEnum):
    CORRECT = 0
    OBSERVE = 1
    PROCESS = 2
    EXPLAIN = 3

class Model:
    def __init__(
        self,
        m: int,
        paths: tuple[str, ...],
        state: dict[str, NDArray[Any]],
        *,
        train: Array,
        half_life: float,
        uncertainty: str,
        k: int,
        threshold: float,
        pseudo_count: float,
        prior_strength: float,
        label_noise: float,
        start_weights: Sequence[Array],
        precision: float = 5.0,
        exponent: float = 0.25,
        passes: float = 1.0,
        shared_features: bool = True,
        values: Values | None = None,
        miss: float = 0,
        monotone: bool = False,
        ratio: Array | None = None,
        set_groups: int = -2,
    ) -> None: ...
    def teach_sets(
        self, rows: Array, ys: NDArray[np.int64], texts: Texts | None = None
    ) -> None: ...

class Kernel:
    state: dict[str, NDArray[Any]]
    content: Any
    index: Any
    def __init__(
        self,
        model: Model,
        state: dict[str, NDArray[Any]],
        content: Any = None,
        index: dict[Any, int] | None = None,
    ) -> None: ...
    def load(self, data: bytes, like: bytes, places: NDArray[np.int64]) -> bool: ...
    def dump(self, like: bytes, places: NDArray[np.int64]) -> bytes: ...
    @property
    def n_sent(self) -> int: ...
    def theta(
        self, row: NDArray[np.float32], likeliest: int, texts: Texts | None = None
    ) -> float: ...
    @property
    def set_counts(self) -> tuple[int, int]: ...
    @property
    def g(self) -> float: ...
    @property
    def prior(self) -> Array: ...
    @property
    def final_weights(self) -> tuple[float, ...]: ...
    @property
    def sent_weights(self) -> tuple[float, ...]: ...
    @property
    def follows_mix(self) -> float | None: ...
    @property
    def coverage(self) -> float: ...
    def rows(
        self,
        P: ArrayLike,
        ndim: int,
        mode: Mode,
        receipt: bool = False,
        texts: Texts | None = None,
    ) -> Any: ...
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
        texts: Texts | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[Array, NDArray[np.float32] | None, Array | None]: ...
    def correct_and_sum(
        self, P: ArrayLike, sums: Array, receipt: bool, texts: Texts | None = None
    ) -> Any: ...
    def add_sums(self, sums: Array, decays: Array) -> None: ...
    def learn_one(
        self,
        p: ArrayLike | None,
        y: int,
        known: NDArray[np.float32] | None,
        texts: Texts | None = None,
        weight: float = 1,
    ) -> None: ...
    def learn_many(
        self,
        P: ArrayLike | None,
        ys: NDArray[np.int64],
        known: NDArray[np.float32] | None,
        texts: Texts | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> None: ...
    def copied(
        self, names: tuple[str, ...] | None = None
    ) -> tuple[Any, dict[str, NDArray[Any]], int, Values | None]: ...
    def replace(
        self,
        model: Model,
        state: dict[str, NDArray[Any]],
        content: Any,
        index: dict[Any, int] | None,
        changes: int,
    ) -> bool: ...

def inside(rows: NDArray[np.float32], thetas: NDArray[np.float32]) -> NDArray[np.bool_]: ...
def given_by_each(
    receipts: NDArray[np.float32], ys: NDArray[np.int64], rows: int, sets: bool = False
) -> NDArray[np.float32]: ...
def given_by_own(
    receipt: object, y: int, m: int, rows: int, sets: bool, most: float
) -> NDArray[np.float32] | None: ...
def given_by_one(receipt: bytes, y: int, rows: int) -> bytes: ...
