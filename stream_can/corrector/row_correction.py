"""Row correction: probability vectors in, corrected ones out."""

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.corrector.inspection import CorrectorInspection
from stream_can.method import receipts as receipt_rows
from stream_can.method.kernel import Mode

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]


class RowCorrection(CorrectorInspection):
    """The part of a `Corrector` that corrects and observes rows."""

    def correct_one(self, p: ArrayLike, *, segments: Any = None) -> Array:
        """Correct a row without learning from it.

        Parameters
        ----------
        p
            Probabilities, shape (m,): finite, >= 0, sum within 0.001 of 1 (and divided by it). With
            class names: {class: p}, a Series; for many rows a DataFrame.

        Returns
        -------
        A new float64 array, shape (m,), that sums to 1.

        Raises
        ------
        InvalidPrediction
            ``p`` is anything else.
        """
        texts = None if segments is None else self._texts(segments, many=False)
        return self._kernel.rows(p, 1, Mode.CORRECT, False, texts)  # type: ignore[no-any-return]

    @overload
    def correct_many(
        self, P: ArrayLike, *, receipt: Literal[False] = False, segments: Any = None
    ) -> Array: ...
    @overload
    def correct_many(
        self, P: ArrayLike, *, receipt: Literal[True], segments: Any = None
    ) -> tuple[Array, Receipts]: ...
    def correct_many(
        self, P: ArrayLike, *, receipt: bool = False, segments: Any = None
    ) -> Array | tuple[Array, Receipts]:
        """Correct rows, shape (n, m), without learning; see :meth:`correct_one`.

        With ``receipt`` also return their receipts, for :meth:`learn_many` of a corrector that
        observes the rows; see :meth:`Learner.play_sent <stream_can.Learner.play_sent>`. For
        prediction sets they record the number of rows in the state.
        """
        n = self.set_counts[0] if receipt and self.sets is not None else None
        corrected = self._kernel.rows(P, 2, Mode.CORRECT, receipt, self._texts(segments))
        if n is not None:
            receipt_rows.number(corrected[1], n)
        return corrected  # type: ignore[no-any-return]

    def observe_one(self, p: ArrayLike, *, segments: Any = None) -> None:
        """Observe an unlabelled prediction, shape (m,): CAN learns from confident ones.

        Raises
        ------
        InvalidPrediction
            ``p`` is not a probability vector; nothing was learned.
        """
        texts = None if segments is None else self._texts(segments, many=False)
        self._kernel.rows(p, 1, Mode.OBSERVE, False, texts)

    def observe_many(self, P: ArrayLike, *, segments: Any = None) -> None:
        """Run :meth:`observe_one` on each row of ``P``, shape (n, m); all rows are checked
        first."""
        self._kernel.rows(P, 2, Mode.OBSERVE, texts=self._texts(segments))

    @overload
    def process_one(
        self, p: ArrayLike, *, receipt: Literal[False] = False, segments: Any = None
    ) -> Array: ...
    @overload
    def process_one(
        self, p: ArrayLike, *, receipt: Literal[True], segments: Any = None
    ) -> tuple[Array, Receipts]: ...
    def process_one(
        self, p: ArrayLike, *, receipt: bool = False, segments: Any = None
    ) -> Array | tuple[Array, Receipts]:
        """Correct, then observe: the call for each prediction of a stream.

        Parameters
        ----------
        p
            Probabilities, shape (m,), as for :meth:`correct_one`.
        receipt
            Also return what the corrected row was mixed from. Where labels come late, keep it with
            ``p`` and pass it to :meth:`learn_one`: then the row that was sent is judged, not the
            one that would be sent by then.
        segments
            {column: value} of the declared columns. A value is a text, an integer or a boolean; 12,
            12.0 and "12" are equal. None, NaN or a missing column: not given.

        Returns
        -------
        The corrected row: a new float64 array, shape (m,). With ``receipt`` a second array, float32
        of shape (R m + 1,): the R rows that it was mixed from (named by ``final_weights``),
        concatenated, and the likeliest class's probability before calibration.

        Raises
        ------
        InvalidPrediction
            ``p`` is not a probability vector; nothing was learned.
        ValueError
            A column is not declared, or a value is invalid.
        """
        texts = None if segments is None else self._texts(segments, many=False)
        return self._kernel.rows(p, 1, Mode.PROCESS, receipt, texts)  # type: ignore[no-any-return]

    @overload
    def process_many(
        self, P: ArrayLike, *, receipt: Literal[False] = False, segments: Any = None
    ) -> Array: ...
    @overload
    def process_many(
        self, P: ArrayLike, *, receipt: Literal[True], segments: Any = None
    ) -> tuple[Array, Receipts]: ...
    def process_many(
        self, P: ArrayLike, *, receipt: bool = False, segments: Any = None
    ) -> Array | tuple[Array, Receipts]:
        """Run :meth:`process_one` on each row of ``P``, shape (n, m), in order.

        The bits are the same, but all rows are checked before the first is processed. With
        ``receipt`` a second array, float32 of shape (n, R m + 1). ``segments`` is {column: n
        values}, or a DataFrame with these columns. Ctrl-C interrupts between two rows;
        ``n_predictions`` tells how many were processed.
        """
        return self._kernel.rows(P, 2, Mode.PROCESS, receipt, self._texts(segments))  # type: ignore[no-any-return]

    def explain_one(self, p: ArrayLike, *, segments: Any = None) -> dict[str, Array]:
        """The rows of each path, {path: shape (m,)}, without learning."""
        rows, content = self._kernel.rows(
            p, 1, Mode.EXPLAIN, texts=self._texts(segments, many=False)
        )
        return dict(zip(content.paths, rows, strict=True))

    def explain_many(self, P: ArrayLike, *, segments: Any = None) -> dict[str, Array]:
        """The rows of each path, {path: shape (n, m)}, without learning."""
        rows, content = self._kernel.rows(P, 2, Mode.EXPLAIN, texts=self._texts(segments))
        return dict(zip(content.paths, rows, strict=True))
