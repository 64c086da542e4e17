"""RowSums: statistics of rows corrected in many processes, to be merged into one corrector."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.corrector import Corrector, Receipts
from stream_can.method import sums as decayed

Array = NDArray[np.float64]


class RowSums:
    """Decayed row statistics, to be merged into a corrector that did not see the rows.

    Parameters
    ----------
    corrector
        The corrector of the rows, or the one into which the sums are merged.
    """

    def __init__(self, corrector: Corrector) -> None:
        self._corrector = corrector

    @property
    def parts(self) -> tuple[decayed.Part, ...]:
        """Meaning of each row of the sums."""
        return decayed.parts(self._corrector._state)

    def zeros(self) -> Array:
        """Empty sums, shape (parts, m + 1)."""
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
        """Correct rows like :meth:`Corrector.correct_many`, and add them to sums.

        Parameters
        ----------
        P
            Rows, shape (n, m).
        sums
            Sums of the rows before, changed in place; see :meth:`zeros`.
        receipt
            Also return receipts, like :meth:`Corrector.process_many`.

        Raises
        ------
        InvalidPrediction, ValueError
            A row is not a probability vector, or the sums belong to another corrector.
        """
        corrector = self._corrector
        sums = decayed.writable(sums, self.parts, len(corrector.classes))
        texts = corrector._texts(segments)
        return corrector._kernel.correct_and_sum(P, sums, receipt, texts)  # type: ignore[no-any-return]

    def add(self, sums: ArrayLike) -> None:
        """Merge sums of rows that were corrected elsewhere into the corrector.

        Raises
        ------
        ValueError
            The sums have another shape than :meth:`zeros`, or impossible values.
        """
        corrector = self._corrector
        added = decayed.checked(sums, self.parts, len(corrector.classes))
        decays = decayed.decays(self.parts, added, corrector._kernel.g)
        corrector._kernel.add_sums(added, decays)
