"""LabelScores: scores of multilabel rows, some of them known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.multilabel.loop import outside
from stream_can.scores import log_losses

Array = NDArray[np.float64]

BINS = 15
FINE_BINS = 1000
"""Thresholds that are tried."""
SUMS = ("known", "positives", "loss", "said", "right")
"""Sums of each label: times known, times true; log loss; times decided for at the threshold, and
correctly so."""


class LabelScores:
    """Scores of rows of m labels, added up chunk by chunk; unknown labels do not count.

    Parameters
    ----------
    m
        Number of labels.

    Attributes
    ----------
    n
        Number of rows added with at least one known label.

    Examples
    --------
    >>> scores = LabelScores(2)
    >>> scores.add([[0.8, 0.3], [0.6, 0.1]], [[1, 0], [0, -1]])
    >>> scores
    LabelScores(2 rows, log loss 0.7481, micro F1 0.6667)
    """

    def __init__(self, m: int) -> None:
        self.n = 0
        self.of_labels = np.zeros((len(SUMS), m))
        self.bins = np.zeros((3, BINS))
        """Bins of probability: number of labels, sum of probabilities, number of true ones."""

    def add(self, P: ArrayLike, Y: ArrayLike, yes: ArrayLike | None = None) -> None:
        """Add rows and their labels.

        Parameters
        ----------
        P
            Probabilities, shape (n, m), each from 0 to 1.
        Y
            1, 0, or -1 where unknown, shape (n, m).
        yes
            Decisions, bool of shape (n, m); ``P >= 0.5`` by default.

        Raises
        ------
        InvalidPrediction, UnknownClass
            They are anything else; nothing has been added.
        """
        rows, labels = np.array(P, np.float64, order="C"), np.asarray(Y)
        if rows.ndim != 2 or rows.shape[1] != self.m or outside(rows) is not None:
            raise InvalidPrediction(
                f"rows of shape {rows.shape}, expected probabilities of shape (n, {self.m})"
            )
        if labels.shape != rows.shape or not np.isin(labels, (-1, 0, 1)).all():
            raise UnknownClass(f"labels: expected 1, 0 and -1, shape {rows.shape}")
        self.add_checked(rows, labels.astype(np.int8), None if yes is None else np.asarray(yes))

    def add_checked(
        self, P: Array, Y: NDArray[np.int8], yes: NDArray[np.bool_] | None = None
    ) -> Array:
        """Add checked rows; return the log loss of each with a known label."""
        known, is_true = Y >= 0, Y == 1
        decided = (P >= 0.5 if yes is None else yes) & known
        loss = log_losses(np.where(is_true, P, 1 - P)) * known
        labelled = known.any(1)
        self.n += int(labelled.sum())
        self.of_labels += [
            known.sum(0), is_true.sum(0), loss.sum(0), decided.sum(0), (decided & is_true).sum(0)
        ]  # fmt: skip
        p = P[known]
        # Bins are open to the left, as for `Scores`.
        inside = np.clip(np.ceil(p * BINS).astype(np.intp) - 1, 0, BINS - 1)
        self.bins += [
            np.bincount(inside, minlength=BINS), np.bincount(inside, p, BINS),
            np.bincount(inside, is_true[known], BINS),
        ]  # fmt: skip
        return np.asarray(loss.sum(axis=1)[labelled])

    def __add__(self, other: LabelScores) -> LabelScores:
        """Scores of the rows of both; ValueError where they have other labels."""
        if not isinstance(other, LabelScores):
            return NotImplemented
        if other.m != self.m:
            raise ValueError(f"{self.m} and {other.m} labels cannot be added up")
        total = LabelScores(self.m)
        total.n = self.n + other.n
        total.of_labels = self.of_labels + other.of_labels
        total.bins = self.bins + other.bins
        return total

    def sums(self) -> Array:
        """All sums as one array, for :meth:`from_sums`."""
        return np.concatenate([[self.n], self.of_labels.ravel(), self.bins.ravel()])

    @classmethod
    def from_sums(cls, sums: NDArray[np.float64], m: int) -> LabelScores:
        """Restore :attr:`sums`; ValueError where they are impossible."""
        scores = cls(m)
        size = 1 + scores.of_labels.size + scores.bins.size
        well_formed = sums.dtype == np.float64 and sums.shape == (size,)
        if not well_formed or not ((sums >= 0) & (sums < 2.0**53)).all():
            raise ValueError("multilabel scores")
        scores.n = int(sums[0])
        scores.of_labels = (
            sums[1 : 1 + scores.of_labels.size].reshape(scores.of_labels.shape).copy()
        )
        scores.bins = sums[1 + scores.of_labels.size :].reshape(scores.bins.shape).copy()
        return scores

    @property
    def m(self) -> int:
        """Number of labels."""
        return self.of_labels.shape[1]

    @property
    def log_loss(self) -> float:
        """Mean over the rows of the sum over their known labels of -log p, in nats."""
        return float(self.of_labels[2].sum() / self.n) if self.n else float("nan")

    @property
    def f1(self) -> Array:
        """F1 of each label, shape (m,): 2 correct / (decided + true); nan where it was neither."""
        _, positives, _, decided, right = self.of_labels
        with np.errstate(invalid="ignore"):
            return np.asarray(2 * right / (decided + positives))

    @property
    def micro_f1(self) -> float:
        """F1 over all labels of all rows."""
        _, positives, _, decided, right = self.of_labels.sum(axis=1)
        return float(2 * right / (decided + positives)) if decided + positives else float("nan")

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the labels that were true or decided for."""
        f1 = self.f1
        return float(np.nanmean(f1)) if not np.isnan(f1).all() else float("nan")

    @property
    def reliability(self) -> tuple[NDArray[np.int64], Array, Array]:
        """Labels in equal bins of probability: number, mean probability, share of true ones; each
        of shape (15,)."""
        count = np.where(self.bins[0] > 0, self.bins[0], np.nan)
        return self.bins[0].astype(np.int64), self.bins[1] / count, self.bins[2] / count

    @property
    def ece(self) -> float:
        """Expected calibration error over all known labels, in 15 equal bins of p."""
        count, p, positives = self.bins
        return float(np.abs(p - positives).sum() / count.sum()) if count.any() else float("nan")

    def summary(self) -> dict[str, float]:
        """All scores by name."""
        names = ("n", "log_loss", "micro_f1", "macro_f1", "ece")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return (
            f"LabelScores({self.n} rows, log loss {self.log_loss:.4f},"
            f" micro F1 {self.micro_f1:.4f})"
        )


class BestThreshold:
    """The threshold from which on a yes gave the best micro F1 so far, to a thousandth.

    Attributes
    ----------
    value
        0.5 until a label was there.
    """

    def __init__(self) -> None:
        self.value = 0.5
        self._counts = np.zeros((2, FINE_BINS))
        """Known labels and those that were there, by probability."""

    def count(self, P: Array, Y: NDArray[np.int8]) -> None:
        """Count the known labels of rows, shape (n, m), -1 where unknown."""
        known = Y >= 0
        bins = np.minimum((P[known] * FINE_BINS).astype(np.intp), FINE_BINS - 1)
        self._counts += [
            np.bincount(bins, minlength=FINE_BINS), np.bincount(bins, Y[known] == 1, FINE_BINS)
        ]  # fmt: skip
        decided, right = self._counts[:, ::-1].cumsum(axis=1)[:, ::-1]
        if right[0]:
            self.value = int(np.argmax(right / (decided + right[0]))) / FINE_BINS
