"""What prediction sets promise, as users say it: a share of rows, such as 0.9."""

from __future__ import annotations

from numbers import Real

__all__ = ["miss_of"]


def miss_of(promised: float) -> float:
    """The share that sets may miss where they promise to hold the label in a share of the rows.

    Parameters
    ----------
    promised
        A share, in (0, 1).

    Raises
    ------
    ValueError
        It is none, or so near 0 or 1 that nothing is left of the other.

    Examples
    --------
    >>> miss_of(0.9)
    0.1
    """
    given = isinstance(promised, Real) and not isinstance(promised, bool)
    miss = round(1 - float(promised), 15) if given else 0.0  # not 0.09999999999999998 of 0.9
    if not 0 < miss < 1:
        raise ValueError(
            f"sets: {promised!r}, expected the share that sets promise, above 0 and below 1: 0.9"
        )
    return miss
