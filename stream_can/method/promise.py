"""The coverage of prediction sets as users give it, such as 0.9."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.method.settings import PROMISE


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


def promise_of(settings: object) -> dict[str, Any]:
    """What sets promise by the settings of an application, or a corrector; None without sets."""
    return {name: getattr(settings, name) for name in PROMISE}


def groups_of(sets: float | None, sets_by: str | None, segments: Sequence[str]) -> int:
    """Number of the segment whose values are the groups of sets; -1 where the predicted classes
    are, -2 where no groups are.

    Raises
    ------
    ValueError
        There are no sets, or no such groups.
    """
    if sets_by is None:
        return -2
    if sets is None:
        raise ValueError("sets_by: of prediction sets; give their share too, sets=0.9")
    if sets_by != "class" and sets_by not in segments:
        expected = ", ".join(["class", *segments])
        raise ValueError(
            f"sets_by: {sets_by!r}, expected the name of a segment, or class: {expected}"
        )
    if sets_by == "class" and sets_by in segments:
        raise ValueError("sets_by: class is the predicted one, and a segment; rename the segment")
    return -1 if sets_by == "class" else segments.index(sets_by)


def names_in_sets(
    inside: NDArray[np.bool_], rows: NDArray[np.floating[Any]], classes: Sequence[Any]
) -> list[list[Any]]:
    """Names of the classes in the set of each row, the likeliest first; shapes (n, m)."""
    row_numbers, columns = inside.nonzero()
    order = np.lexsort((columns, -rows[row_numbers, columns], row_numbers))
    names = [classes[k] for k in columns[order].tolist()]
    ends = inside.sum(axis=1).cumsum().tolist()
    return [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]
