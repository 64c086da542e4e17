import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

def likeliest(P: Array, y: NDArray[np.int64]) -> tuple[NDArray[np.intp], Array, Array]: ...
def add_to_bins(
    confidence: Array, hits: NDArray[np.bool_], bins: Array, weights: Array | None = None
) -> None: ...
