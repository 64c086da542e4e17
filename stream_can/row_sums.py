"""Rows that many processes correct with one state, as sums that one corrector observes."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.corrector import Corrector, Receipts
from stream_can.method import sums as decayed

__all__ = ["RowSums"]

Array = NDArray[np.float64]


class RowSums:
    """Decayed row statistics, summed beside a corrector that observes them later.

    Parameters
    ----------
    corrector
        The state by which rows are corrected, or the one that observes them.
    """

    def __init__(self, corrector: Corrector) -> None:
        self._corrector = corrector

    @property
    def parts(self) -> tuple[decayed.Part, ...]:
        """The meaning of each row of the sums."""
        return decayed.parts(self._corrector._state)

    def zeros(self) -> Array:
        """Sums of no rows, shape (parts, m + 1)."""
        return np.zeros((len(self.parts), len(self._corrector.classes) + 1))

    @overload
    def correct(
        self, P: ArrayLike, sums: Array, *, receipt: Literal[False] = False, segments: Any = None
    ) -> Array: ...
    @overload
    def correct(
        self, P: ArrayLike, sums: Array, *, receipt: Literal[True], segments: Any = None
    ) -> tuple[Array, Receipts]: ...
    def correct(
        self, P: ArrayLike, sums: Array, *, receipt: bool = False, segments: Any = None
    ) -> Array | tuple[Array, Receipts]:
        """Correct rows as :meth:`Corrector.correct_many` does, and add them to sums.

        Parameters
        ----------
        P
            Rows, shape (n, m).
        sums
            Of the rows before them, changed in place; see :meth:`zeros`.
        receipt
            Also return receipts, as :meth:`Corrector.process_many` does.

        Raises
        ------
        InvalidPrediction, ValueError
            A row is no probability vector, or the sums are none of this corrector's.
        """
        corrector = self._corrector
        sums = decayed.writable(sums, self.parts, len(corrector.classes))
        texts = corrector._texts(segments)
        return corrector._kernel.correct_and_sum(P, sums, receipt, texts)  # type: ignore[no-any-return]

    def add(self, sums: ArrayLike) -> None:
        """Let the corrector observe rows that were corrected elsewhere, from their sums.

        Raises
        ------
        ValueError
            The sums are of another shape than :meth:`zeros`, or hold what no sum can be.
        """
        corrector = self._corrector
        added = decayed.checked(sums, self.parts, len(corrector.classes))
        decays = decayed.decays(self.parts, added, corrector._kernel.g)
        corrector._kernel.add_sums(added, decays)
