"""Decayed sums of rows, to be merged into a corrector that did not see the rows.

Processes that correct with a shared, fixed state add up what observing their rows would add; these
sums are later added to the state, everywhere in the same order.

Sums are an array, shape (parts, m + 1), with a row per :class:`Part`; only this module defines
their order and decay. If every row is added separately, the state equals that after observing the
rows: to the bit, but for the evidence behind a class mix without labels, which differs by rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.method.bases import BASES

Array = NDArray[np.float64]


class Expert(NamedTuple):
    """One estimator of the class mix without labels."""

    half_life: float
    """In rows."""
    strength: float
    """Weight of the next slower expert's estimate, in rows per class."""


EXPERTS = {"Q": Expert(1000, 20), "Q.500": Expert(500, 5), "Q.50": Expert(50, 2)}
"""After the fitted base, slow to fast, by the array of their counts."""
MOVING_EXPERTS = {"Q.moving": Expert(50, 2)}
"""After the anchor, without fit."""
WEIGHTS_OF_EXPERTS = ("W", "W.moving")
"""Arrays of the weights of the two chains; sums contain the evidence that changes them."""
GUARD_HALF_LIFE = 300
"""Half-life of D and of the rival's cells, in rows."""
THIRDS = ("rival.low", "rival.middle", "rival.high")
"""Arrays of the rival's cells, by the third of validation's tops: counts of each class, and their
number."""
LATE_ROWS_HALF_LIFE, LATE_LABELS_HALF_LIFE = 50, 200
"""Half-lives of what was predicted of late, in rows and in labels."""

MOST = 2.0**40
"""Upper bound of any sum or number of rows."""


class Part(NamedTuple):
    """A row of sums: m decayed sums, and a number of rows."""

    array: str
    """The array of the state to which it is added."""
    counted: bool
    """Whether the number after the sums is a plain count, which determines their decay.

    Otherwise it decays with them, by all rows, and is added to the state too."""
    decay: float | None = None
    """Decay factor per row; None for the corrector's own. 1 for the evidence that changes weights:
    sums of log l, one per expert, without a number of rows."""
    least: float = 0
    """Lower bound of the numbers."""


ROWS = 1
"""The part that counts all rows."""


def parts(state: Iterable[str]) -> tuple[Part, ...]:
    """Parts of the sums, in order, for a state with arrays of these names.

    The rows (1), the likeliest classes, for each base with CAN its confident rows; then the
    quantities of the class mix: the counts of each expert, how much flatter rows are (sum first,
    number last), the anchor's rows; the last rows, the squares of their weights, the squares of
    rows; the cells of the rival; and the evidence.
    """
    return _parts(tuple(state))


@lru_cache(maxsize=100)
def _parts(state: tuple[str, ...]) -> tuple[Part, ...]:
    every_part = [Part("mean", False), Part("predicted", True)]
    every_part += [Part(f"S.{base}", True) for base in BASES]
    experts = (EXPERTS | MOVING_EXPERTS).items()
    every_part += [Part(name, False, 2.0 ** (-1.0 / expert.half_life)) for name, expert in experts]
    every_part.append(Part("D", False, 2.0 ** (-1.0 / GUARD_HALF_LIFE), -MOST))
    every_part.append(Part("V", False))
    late = 2.0 ** (-1.0 / LATE_ROWS_HALF_LIFE)
    every_part += [Part("late.rows", False, late), Part("late.rows.squares", False, late * late)]
    every_part.append(Part("squares", False))
    every_part += [Part(name, False, 2.0 ** (-1.0 / GUARD_HALF_LIFE)) for name in THIRDS]
    every_part += [Part(name, False, 1.0, -MOST) for name in (*WEIGHTS_OF_EXPERTS, "W.rival")]
    names = set(state)
    return tuple(part for part in every_part if part.array in names)


def rows(sums: Array) -> int:
    """Number of rows in sums."""
    return int(sums[ROWS, -1])


def checked(sums: Any, layout: Sequence[Part], m: int) -> Array:
    """Check sums: a C-contiguous float64 array of possible values, or ValueError."""
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
    """Lower bounds of each part's numbers, as a column."""
    return np.array([[part.least] for part in layout])


def writable(sums: Any, layout: Sequence[Part], m: int) -> Array:
    """Check that sums can be changed in place; return the same array, or raise ValueError."""
    shape = len(layout), m + 1
    if not (
        isinstance(sums, np.ndarray)
        and sums.dtype == np.float64
        and sums.flags.carray
        and sums.shape == shape
    ):
        description = _about(sums) if isinstance(sums, np.ndarray) else type(sums).__name__
        raise ValueError(
            f"sums: {description}, expected a C-contiguous, writable float64 array of shape"
            f" {shape}, as RowSums.zeros() of this corrector makes them"
        )
    checked(sums, layout, m)
    return sums


def _about(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"


def power(g: float, n: int) -> float:
    """g to the power of n, with equal bits on all machines; the C library's pow differs."""
    result = 1.0
    while n:
        if n & 1:
            result *= g
        g *= g
        n >>= 1
    return result


def decays(layout: Sequence[Part], sums: Array, g: float) -> Array:
    """Factors by which earlier sums, or the state, decay during the rows of these sums."""
    n = rows(sums)
    return np.array(
        [
            power(g if part.decay is None else part.decay, int(row[-1]) if part.counted else n)
            for part, row in zip(layout, sums, strict=True)
        ]
    )


def add_up(layout: Sequence[Part], sums: Array, g: float) -> None:
    """Convert sums without decay, in place, to those of rows without an order.

    Together n rows weigh 1 + g + ... + g^(n-1), as if one after the other, where g is the decay
    factor per row; each row gets the average of that over all orders.
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
