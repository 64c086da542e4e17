"""The coverage of prediction sets as users give it, such as 0.9."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def miss_of(promised: float) -> float:
    """The share that sets may miss, given their coverage.

    Parameters
    ----------
    promised
        Coverage, in (0, 1).

    Raises
    ------
    ValueError
        It is out of range, or so near 0 or 1 that its complement vanishes.

    Examples
    --------
    >>> miss_of(0.9)
    0.1
    """
    is_number = isinstance(promised, Real) and not isinstance(promised, bool)
    miss = round(1 - float(promised), 15) if is_number else 0.0  # 0.1, not 0.09999999999999998
    if not 0 < miss < 1:
        raise ValueError(
            f"sets: {promised!r}, expected the share that sets promise, above 0 and below 1: 0.9"
        )
    return miss


def names_in_sets(
    inside: NDArray[np.bool_], rows: NDArray[np.floating[Any]], classes: Sequence[Any]
) -> list[list[Any]]:
    """Names of the classes in the set of each row, the likeliest first; shapes (n, m)."""
    row_numbers, columns = inside.nonzero()
    order = np.lexsort((columns, -rows[row_numbers, columns], row_numbers))
    names = [classes[k] for k in columns[order].tolist()]
    ends = inside.sum(axis=1).cumsum().tolist()
    return [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]
