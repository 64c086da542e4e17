"""What rounding explains: how far it may take the sum of a row from 1, by the row's own numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BINARY = {8: 0.0, 11: 2.0**-24}
"""Bits of a number in bfloat16 and in float16, and the smallest step between two of them."""
PRINTED = 1e-6
"""Relative error of such a number that was printed with 6 digits or more."""


def explained(P: Array, total: Array | float) -> NDArray[np.bool_]:
    """Whether rounding explains that the rows of P, shape (n, m), sum to ``total``.

    Either to decimal digits, half a unit of the last digit for each entry, and where they sum to
    more than 1 at most the entry itself; or to bfloat16 or
    float16, where all entries are numbers of these: half a unit of the last bit for each entry, and
    as much for the sum that it was divided by, which itself is rounded at each of log2(m) steps.
    """
    half = _half_a_unit(P)
    above = np.minimum(P, half[:, None]).sum(axis=1)  # no entry was rounded up from below 0
    slack = np.where(total > 1, above, P.shape[1] * half) + 1e-6 * half
    for bits, least in BINARY.items():
        slack = np.maximum(slack, _units(P, bits, least))
    return np.asarray(np.abs(total - 1) <= slack)


def _units(P: Array, bits: int, least: float) -> Array:
    """How far rounding to so many bits takes the sum of each row; 0 where an entry has more."""
    units = np.maximum(np.ldexp(1.0, np.frexp(P)[1] - bits), least)
    units[P == 0] = least
    nearest = np.rint(np.divide(P, units, out=np.zeros_like(P), where=units > 0)) * units
    same = (np.abs(nearest - P) <= PRINTED * P).all(axis=1)
    steps = np.log2(max(P.shape[1], 1)) * 2.0 ** -(bits + 1)
    return np.asarray(np.where(same, units.sum(axis=1) + steps, 0))


def _half_a_unit(P: Array) -> Array:
    """Half a unit of the last digit of each row; 0 for whole numbers, or more than 9 digits."""
    half = np.zeros(len(P))
    for digits in range(9, 0, -1):
        with np.errstate(over="ignore"):  # 1e302 times 10**9
            same = (np.abs(np.round(P, digits) - P) < 1e-12).all(axis=1)
        half[same] = 0.5 / 10**digits
    half[(P % 1 == 0).all(axis=1)] = 0
    return half
