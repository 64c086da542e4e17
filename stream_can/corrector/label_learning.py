"""Label learning: labels of predictions, now or much later, one by one or within a stream."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.corrector.prediction_sets import PredictionSets
from stream_can.errors import UnknownClass
from stream_can.method import receipt_checks
from stream_can.method import receipts as receipt_rows
from stream_can.method.rows import unordered
from stream_can.method.weights import weight_of_label, weights_of_labels

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]


class Played(NamedTuple):
    """Result of :meth:`Corrector.play`."""

    rows: Array
    """Corrected rows, shape (n, m)."""
    receipts: Receipts | None
    """Receipts of the rows, shape (n, R m + 1), if requested; R is ``n_sent``."""
    paths: Array | None
    """Rows of each path, shape (paths, n, m), if requested."""


class LabelLearning(PredictionSets):
    """The part of a `Corrector` that learns labels."""

    def learn_one(
        self,
        p: ArrayLike | None,
        y: Hashable,
        *,
        receipt: ArrayLike | None = None,
        segments: Any = None,
        weight: float | None = None,
    ) -> None:
        """Learn the label of a prediction, now or much later.

        The row that was sent is judged first; then the paths are weighted by the probability that
        each now gives ``y``; then the bases and the prior learn it.

        Parameters
        ----------
        p
            The classifier's own prediction (not the corrected one), shape (m,); None where it is
            gone: then the label teaches the prior alone.
        y
            Name of the class.
        receipt
            The receipt that :meth:`process_one` returned with this prediction, shape (R m + 1,). If
            it is None or NaN, or has other rows because it is older than :meth:`fit`, the rows are
            judged as they would be now.
        segments
            {column: value} as given with the prediction; without ``p`` it teaches nothing.
        weight
            How many labels it counts as, from 0.01 to 100, by default 1: 1 / probability of a label
            that was chosen with a known one.

        Raises
        ------
        InvalidPrediction, UnknownClass, ValueError
            An argument is invalid; nothing was learned.
        """
        index = self._index_of(y, "label")
        receipt_checks.require_row(receipt, p, single=True)
        known = None
        if receipt is not None:
            m, n_sent, sets = len(self.classes), self._kernel.n_sent, self.sets is not None
            known = receipt_rows.brought_one(receipt, index, m, self._fewest, n_sent, sets=sets)
        texts = None if segments is None else self._texts(segments, many=False)
        if weight is None:
            self._kernel.learn_one(p, index, known, texts)
        else:
            self._kernel.learn_one(p, index, known, texts, weight_of_label(weight))

    def learn_many(
        self,
        P: ArrayLike | None,
        ys: Iterable[Hashable],
        *,
        receipts: ArrayLike | None = None,
        segments: Any = None,
        weights: ArrayLike | None = None,
    ) -> None:
        """Run :meth:`learn_one` on each row of ``P``, shape (n, m), or None, and label of ``ys``.

        All rows and labels are checked before the first is learned. ``receipts`` has shape
        (n, R m + 1), with NaN rows for unknown ones; ``weights`` shape (n,).
        """
        indices = self._indices_of(ys)
        receipt_checks.require_row(receipts, P, single=False)
        known = None if receipts is None else self._known(receipts, indices)
        weighted = [] if weights is None else [weights_of_labels(weights, len(indices))]
        self._kernel.learn_many(P, indices, known, self._texts(segments), *weighted)

    def _known(self, brought: ArrayLike, ys: NDArray[np.int64]) -> NDArray[np.float32]:
        """Probabilities that receipts gave their labels, shape (n, R + 1)."""
        m, n_sent, sets = len(self.classes), self._kernel.n_sent, self.sets is not None
        return receipt_rows.brought(brought, ys, m, self._fewest, n_sent, sets=sets)

    def play(
        self,
        P: ArrayLike,
        ys: NDArray[np.int64],
        rows: NDArray[np.int64],
        due: NDArray[np.int64],
        *,
        first: int = 0,
        known: NDArray[np.float32] | None = None,
        receipt: bool = False,
        explain: bool = False,
        segments: Any = None,
        weights: ArrayLike | None = None,
    ) -> Played:
        """Process rows and learn labels in one call; used by replays and learners.

        Parameters
        ----------
        P
            Rows, shape (first + n, m): ``first`` that were processed before and whose labels arrive
            now, and n to process.
        ys
            Labels in the order to learn them, shape (k,): indices of classes.
        rows
            For each label its row of ``P``, shape (k,); -1 where the prediction is gone.
        due
            For each label the row among the n before which it is learned, shape (k,), ascending; n
            is after the last. A label cannot be due before its own row.
        first
            Number of rows of ``P`` that were processed before.
        known
            Numbers that each prediction's receipt gave its label, float32 of shape (k, R + 1), see
            ``stream_can.method.receipts``; NaN where unknown. Not needed for rows of this call if
            ``receipt`` is true.
        receipt
            Whether to return receipts, and to judge labels of this call's rows by them.
        explain
            Whether to return the rows of each path.
        weights
            Weight of each label, shape (k,); 1 by default.

        Returns
        -------
        The same bits as :meth:`process_one` and :meth:`learn_one` in that order.

        Raises
        ------
        InvalidPrediction, ValueError
            A row is not a probability vector, or an index is out of range; nothing was learned.
        """
        numbers = (_int64(ys, "ys"), _int64(rows, "rows"), _int64(due, "due"))
        if known is not None:
            known = _float32(known)
        texts = self._texts(segments)
        weighted = [] if weights is None else [weights_of_labels(weights, len(numbers[0]))]
        kernel = self._kernel
        return Played(*kernel.play(P, first, *numbers, known, receipt, explain, texts, *weighted))

    def _index_of(self, y: Hashable, where: str) -> int:
        try:
            return self._kernel.index.column(y)  # type: ignore[no-any-return]
        except UnknownClass as error:
            raise UnknownClass(f"{where} {error}") from None

    def _indices_of(self, ys: Iterable[Hashable]) -> NDArray[np.int64]:
        """Index of each label's class. If the classes are 0..m-1, an array of integers is checked
        as a whole."""
        if isinstance(ys, str):
            raise UnknownClass(f"labels: expected one name per row, got the string {ys!r}")
        if unordered(ys) or isinstance(ys, Mapping) or hasattr(ys, "columns"):
            raise UnknownClass(f"labels: {type(ys).__name__}, expected one name per row, in order")
        array = ys if isinstance(ys, np.ndarray) else None
        if array is not None and array.ndim != 1:
            raise UnknownClass(f"labels have shape {array.shape}, expected (n,)")
        if array is not None and array.dtype.kind in "iu" and self._index.is_range:
            outside = np.flatnonzero((array < 0) | (array >= len(self.classes)))
            if len(outside):
                self._index_of(array[outside[0]].item(), f"label of row {outside[0]}")
            return np.array(array, np.int64)
        names = array.tolist() if array is not None else ys
        return np.fromiter(
            (self._index_of(y, f"label of row {i}") for i, y in enumerate(names)), np.int64
        )


def _int64(numbers: ArrayLike, name: str) -> NDArray[np.int64]:
    """A copy of integers, which cannot change while the loop runs."""
    array = np.asarray(numbers)
    if array.ndim != 1 or not (np.can_cast(array.dtype, np.int64, "safe") or not array.size):
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}, expected int64, (k,)")
    return np.array(array, np.int64) if array.size else np.empty(0, np.int64)  # of any type


def _float32(known: ArrayLike) -> NDArray[np.float32]:
    """A copy of the numbers that receipts gave labels."""
    array = np.asarray(known)
    if array.dtype.kind != "f":
        raise ValueError(f"known: {array.dtype}, expected float32")
    with np.errstate(over="ignore"):  # infinite values are refused later
        return np.array(array, np.float32, order="C")
