"""Prediction sets: the classes that a row can have, with a promised coverage."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.corrector.row_correction import RowCorrection
from stream_can.method import receipts as receipt_rows
from stream_can.method.kernel import Mode, inside


class PredictionSets(RowCorrection):
    """The part of a `Corrector` that predicts sets."""

    def predict_set_one(self, p: ArrayLike, *, segments: Any = None) -> list[Any]:
        """Predict the set of classes that a row, shape (m,), can have, with the coverage ``sets``.

        Nothing is counted: this is the set with which the row would be sent now.

        Returns
        -------
        Names of classes, the likeliest first; that one is always included.

        Raises
        ------
        InvalidPrediction
            The row is not a probability vector.
        ValueError
            The corrector makes no sets.
        """
        self._require_sets("predict_set_one")
        texts = None if segments is None else self._texts(segments, many=False)
        return self.set_of(*self._kernel.rows(p, 1, Mode.CORRECT, True, texts))

    def predict_set_many(self, P: ArrayLike, *, segments: Any = None) -> NDArray[np.bool_]:
        """:meth:`predict_set_one` for each row of ``P``, shape (n, m), as booleans of the same
        shape."""
        self._require_sets("predict_set_many")
        sent_rows = self._kernel.rows(P, 2, Mode.CORRECT, True, self._texts(segments))
        return self.sets_of(*sent_rows)

    def set_of(self, row: ArrayLike, receipt: ArrayLike) -> list[Any]:
        """The set with which a row was sent, from the results of :meth:`process_one`.

        Parameters
        ----------
        row
            The corrected row, shape (m,).
        receipt
            Its receipt.

        Returns
        -------
        Names of classes, the likeliest first.

        Raises
        ------
        ValueError
            The corrector makes no sets, or the receipt has none.
        """
        sent = np.asarray(row, np.float32)
        (is_inside,) = self.sets_of(sent[None], np.asarray(receipt)[None])
        return _inside(self.classes, sent, is_inside)

    def _set_now(self, classes: Sequence[Any], row: ArrayLike, segments: Any = None) -> list[Any]:
        """The set of a row of these classes, possibly fewer than the corrector's, without
        correcting or counting it."""
        self._require_sets("predict_set_one")
        sent = np.array(row, np.float32)
        likeliest = self._index.get(classes[int(sent.argmax())], -1)
        texts = None if segments is None else self._texts(segments, many=False)
        theta = np.array([self._kernel.theta(sent, likeliest, texts)], np.float32)
        return _inside(classes, sent, inside(sent[None], theta)[0])

    def sets_of(self, rows: ArrayLike, receipts: ArrayLike) -> NDArray[np.bool_]:
        """Whether each class is in the set with which each row, shape (n, m), was sent."""
        self._require_sets("sets_of")
        sent, receipts = np.ascontiguousarray(rows, np.float32), np.asarray(receipts, np.float32)
        n, m = sent.shape
        if receipts.shape != (n, receipt_rows.size(m, self.n_sent, sets=True)):
            raise ValueError(
                f"receipts of shape {receipts.shape} say nothing of sets; pass those that this"
                " corrector returned with the rows, since it has sets"
            )
        thetas = receipt_rows.thetas_of(receipts)
        if np.isnan(thetas).any():
            raise ValueError(f"receipt of row {int(np.isnan(thetas).argmax())} knows no set")
        is_inside: NDArray[np.bool_] = inside(sent, thetas)
        return is_inside

    def _require_sets(self, method: str) -> None:
        if self.sets is None:
            raise ValueError(f"{method}: nothing was promised; make it with sets=0.9")


def _inside(
    classes: Sequence[Any], row: NDArray[np.float32], is_inside: NDArray[np.bool_]
) -> list[Any]:
    """Names of the classes in a set, the likeliest first."""
    return [classes[k] for k in np.argsort(-row, kind="stable").tolist() if is_inside[k]]
