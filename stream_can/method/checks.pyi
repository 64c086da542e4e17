from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

def bad_rows(P: Array, names: Sequence[Any] | None = None) -> dict[int, str]: ...
def checked(P: ArrayLike) -> Array: ...
def normalised(P: ArrayLike) -> Array: ...
