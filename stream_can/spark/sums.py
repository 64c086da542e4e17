"""The rows of a batch as one sum: they have no order, so each weighs the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.method.sums import EM_DECAY, power

__all__ = ["of_batch", "without_decay"]

Array = NDArray[np.float64]


def without_decay(data: bytes) -> Corrector:
    """The corrector of a snapshot, for sums in which no row counts less than one after it."""
    return Corrector.from_bytes(data, half_life=np.inf)


def of_batch(corrector: Corrector, partitions: Sequence[Array]) -> Array:
    """What ``add_sums`` takes, from the sums of each partition, in any order.

    n rows together weigh 1 + g + ... + g^(n-1), as they would one after the other, where g is what
    one row later leaves of a row; and each of them weighs as much as it does on the average over
    all orders.
    """
    total = corrector.new_sums()
    for sums in sorted(partitions, key=lambda sums: sums.tobytes()):
        total += sums
    g = 2.0 ** (-1 / corrector.settings["half_life"])
    n, bases = int(total[1, -1]), len(corrector.confident_sums)
    mean, predicted, confident, em = total[0], total[1], total[2 : 2 + bases], total[2 + bases :]
    mean *= _weight(g, n)
    predicted[:-1] *= _weight(g, n)
    for part in confident:
        part[:-1] *= _weight(g, int(part[-1]))
    # Those of EM have decayed within each partition, whatever the half-life of the rest.
    em *= n * _weight(EM_DECAY, n) / np.maximum(em[:, -1:], 1)
    return total


def _weight(g: float, n: int) -> float:
    """What each of n rows weighs."""
    return 1.0 if g == 1 or n == 0 else (1 - power(g, n)) / (1 - g) / n
