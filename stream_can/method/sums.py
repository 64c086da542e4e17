"""Decayed sums of rows: what a corrector that did not see them needs to have observed them.

Rows that many processes correct with one state change nothing there; each adds up what observing
them would have added, and the sums are added to the state later, everywhere in the same order.

Sums are an array, shape (parts, m + 1), one row a :class:`Part`: here alone is written in which
order they come and how each decays; the kernel and Spark ask. Where each row is
added by itself the state is, to the bit, what observing it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.method.bases import BASES

__all__ = [
    "EXPERTS", "MOVING_EXPERTS", "WEIGHTS_OF_EXPERTS", "Part", "add_up", "checked",
    "decays", "parts", "rows", "writable",
]  # fmt: skip

Array = NDArray[np.float64]


class Expert(NamedTuple):
    """One who counts the class mix without labels."""

    half_life: float
    """In rows."""
    strength: float
    """Weight of what the slower expert before it says, in rows for each class."""


EXPERTS = {"Q": Expert(1000, 20), "Q.500": Expert(500, 5), "Q.50": Expert(50, 2)}
"""Behind the fitted base, slow to fast, by the array of their counts."""
MOVING_EXPERTS = {"Q.moving": Expert(50, 2)}
"""Behind the anchor, without fit."""
WEIGHTS_OF_EXPERTS = ("W", "W.moving")
"""Weights of the two chains; sums have the evidence that they change by."""
GUARD_HALF_LIFE = 300
"""Half-life of D, in rows."""

MOST = 2.0**40
"""More than any sum or number of rows comes to."""


class Part(NamedTuple):
    """One row of sums: m decayed sums, and how many rows are in them."""

    array: str
    """The array of the state that it is added to."""
    counted: bool
    """Whether the number behind the sums is a plain count and decides how they decay.

    Else it decays as they do, with all rows, and is added to the state like them."""
    decay: float | None = None
    """Factor that they keep at each row; None for the corrector's own. 1 for the evidence that
    weights change by: sums of log l, an entry for each expert, without a number of rows behind
    them."""
    least: float = 0
    """Least of each number."""


ROWS = 1
"""The part that counts all rows."""


def parts(state: Iterable[str]) -> tuple[Part, ...]:
    """Parts of the sums, in their order, for a state with arrays of these names.

    The rows (1), the likeliest classes, for each base with CAN its confident rows; then what the
    class mix is followed by: what each expert counts, how much flatter rows are (the sum first, the
    number last), the anchor's rows, and the evidence.
    """
    return _parts(tuple(state))


@lru_cache(maxsize=100)
def _parts(state: tuple[str, ...]) -> tuple[Part, ...]:
    found = [Part("mean", False), Part("predicted", True)]
    found += [Part(f"S.{base}", True) for base in BASES]
    experts = (EXPERTS | MOVING_EXPERTS).items()
    found += [Part(name, False, 2.0 ** (-1.0 / expert.half_life)) for name, expert in experts]
    found.append(Part("D", False, 2.0 ** (-1.0 / GUARD_HALF_LIFE), -MOST))
    found.append(Part("V", False))
    found += [Part(name, False, 1.0, -MOST) for name in WEIGHTS_OF_EXPERTS]
    names = set(state)
    return tuple(part for part in found if part.array in names)


def rows(sums: Array) -> int:
    """How many rows are behind sums."""
    return int(sums[ROWS, -1])


def checked(sums: Any, layout: Sequence[Part], m: int) -> Array:
    """Sums as a C-contiguous float64 array of numbers that sums can be, or ValueError."""
    array, shape = np.asarray(sums), (len(layout), m + 1)
    if array.dtype.kind not in "fiu" or array.shape != shape:
        raise ValueError(f"sums: {_about(array)}, expected float64 of shape {shape}")
    array = np.ascontiguousarray(array, np.float64)
    least = _least(tuple(layout))
    if not ((array >= least) & (array <= MOST)).all():
        i, j = np.argwhere(~((array >= least) & (array <= MOST)))[0].tolist()
        raise ValueError(
            f"sums: entry {i, j} is {array[i, j]}, expected {layout[i].least:g} to {MOST:g}"
        )
    return array


@lru_cache(maxsize=100)
def _least(layout: tuple[Part, ...]) -> Array:
    """The least that each part's numbers can be, as a column."""
    return np.array([[part.least] for part in layout])


def writable(sums: Any, layout: Sequence[Part], m: int) -> Array:
    """Sums that can be changed in place: the same array, checked, or ValueError."""
    shape = len(layout), m + 1
    if not (
        isinstance(sums, np.ndarray)
        and sums.dtype == np.float64
        and sums.flags.carray
        and sums.shape == shape
    ):
        what = _about(sums) if isinstance(sums, np.ndarray) else type(sums).__name__
        raise ValueError(
            f"sums: {what}, expected a C-contiguous, writable float64 array of shape {shape},"
            " as RowSums.zeros() of this corrector makes them"
        )
    checked(sums, layout, m)
    return sums


def _about(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"


def power(g: float, n: int) -> float:
    """g to the power of n, with the same bits on every machine; that of C's library differs."""
    result = 1.0
    while n:
        if n & 1:
            result *= g
        g *= g
        n >>= 1
    return result


def decays(layout: Sequence[Part], sums: Array, g: float) -> Array:
    """Factors that earlier sums, or the state, keep of each part once the rows of these went by."""
    n = rows(sums)
    return np.array(
        [
            power(g if part.decay is None else part.decay, int(row[-1]) if part.counted else n)
            for part, row in zip(layout, sums, strict=True)
        ]
    )


def add_up(layout: Sequence[Part], sums: Array, g: float) -> None:
    """Change sums in which no row has decayed, in place, to those of rows without an order.

    n rows together weigh 1 + g + ... + g^(n-1), as they would one after the other, where g is what
    one row later leaves of a row; and each of them weighs as much as it does on the average over
    all orders.
    """
    n = rows(sums)
    for part, row in zip(layout, sums, strict=True):
        if part.decay == 1:  # evidence
            continue
        if part.decay is not None:  # has decayed, whatever the half-life of the rest
            row *= n * _weight(part.decay, n) / np.maximum(row[-1:], 1)
        elif part.counted:
            row[:-1] *= _weight(g, int(row[-1]))
        else:
            row *= _weight(g, n)


def _weight(g: float, n: int) -> float:
    """Weight of each of n rows."""
    return 1.0 if g == 1 or n == 0 else (1 - power(g, n)) / (1 - g) / n
