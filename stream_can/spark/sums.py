"""The rows of a batch as one sum: they have no order, so each weighs the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.method.sums import add_up
from stream_can.row_sums import RowSums

__all__ = ["of_batch", "without_decay"]

Array = NDArray[np.float64]


def without_decay(data: bytes) -> Corrector:
    """The corrector of a snapshot, for sums in which no row counts less than one after it."""
    return Corrector.from_bytes(data, half_life=np.inf)


def of_batch(corrector: Corrector, partitions: Sequence[Array]) -> Array:
    """Sums for :meth:`RowSums.add`, from those of each partition, in any order."""
    total = RowSums(corrector).zeros()
    for sums in sorted(partitions, key=lambda sums: sums.tobytes()):
        total += sums
    add_up(RowSums(corrector).parts, total, 2.0 ** (-1 / corrector.settings["half_life"]))
    return total
