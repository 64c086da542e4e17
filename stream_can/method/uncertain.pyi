import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNCERTAINTIES: tuple[str, ...]

def uncertainty(P: Array, kind: str, k: int) -> Array: ...
