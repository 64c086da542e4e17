from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class OrdinaryBatch:
    size: int
    off: int
    ids: list[bytes | None]
    rows: NDArray[np.float64]
    labels: list[tuple[bytes | None, Any, int]]
    labelled: bool
    def line_of(self, row: int) -> int: ...
    def write(
        self,
        rows: NDArray[np.float64],
        asked: Sequence[str | None] | None = None,
        sets: Sequence[Sequence[Any]] | None = None,
    ) -> list[bytes]: ...

class Ordinary:
    def __init__(
        self,
        classes: tuple[bytes | None, ...],
        probs: bytes,
        raw: bytes | None,
        label: bytes,
        id: bytes | None,
    ) -> None: ...
    def read(
        self, lines: Sequence[bytes | None], labelled: bool = False
    ) -> OrdinaryBatch | None: ...
