import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

def more_errors(
    starts: NDArray[np.int64], before: Array, side: int, wrong: float, n: int
) -> tuple[float, int]: ...
def wealth(
    starts: NDArray[np.int64], before: Array, sums: Array, column: int, bets: int, first: int
) -> tuple[float, int]: ...
