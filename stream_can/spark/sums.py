"""Sums of a batch's rows, which have no order, so all weigh the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.method.sums import add_up
from stream_can.row_sums import RowSums

Array = NDArray[np.float64]


def without_decay(data: bytes) -> Corrector:
    """Restore a corrector without decay, for sums in which all rows weigh the same."""
    return Corrector.from_bytes(data, half_life=np.inf)


def of_batch(corrector: Corrector, partitions: Sequence[Array]) -> Array:
    """Sums for :meth:`RowSums.add`, from those of each partition, in any order."""
    total = RowSums(corrector).zeros()
    for sums in sorted(partitions, key=lambda sums: sums.tobytes()):
        total += sums
    add_up(RowSums(corrector).parts, total, 2.0 ** (-1 / corrector.settings["half_life"]))
    return total
