from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

COMPILED: bool
"""Whether the C++ library reads and writes the numbers; else msgspec does."""

def read_array(text: Any, m: int) -> array[float] | None: ...
def array_texts(rows: NDArray[np.float64]) -> Iterator[bytes]: ...
