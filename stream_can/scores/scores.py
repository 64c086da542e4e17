"""Scores: accuracy, log loss, Brier score and calibration error, added up chunk by chunk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.method.likeliest import add_to_bins
from stream_can.method.weights import weights_of_labels
from stream_can.scores.row_scores import RowScores, check_rows, score_with_labels

BINS = 15


class Reliability(NamedTuple):
    """Predictions in equal bins of confidence (the probability of the likeliest class)."""

    rows: NDArray[np.float64]
    """Number of rows in each bin, or the sum of their weights, shape (bins,)."""
    confidence: NDArray[np.float64]
    """Mean confidence of those rows; nan in an empty bin."""
    accuracy: NDArray[np.float64]
    """Share of those rows whose likeliest class is the label; nan in an empty bin."""


class Scores:
    """Scores of a stream, added up chunk by chunk.

    Scores of several streams can be added: ``sum(parts, Scores())``. A row with a weight counts as
    so many rows in every sum and mean; ``n`` alone counts it once.

    Parameters
    ----------
    bins
        Equal bins of confidence for :attr:`ece`, :attr:`mce` and :attr:`reliability`, 1 <= bins.

    Attributes
    ----------
    n
        Rows added.
    hits
        Rows whose likeliest class is the label; of weighted rows the sum of their weights.
    log_loss_sum
        Sum of -log p[y] in nats, p[y] no smaller than 1e-6.
    brier_sum
        Sum of the squared distances to the label's unit vector.

    Examples
    --------
    >>> scores = Scores()
    >>> scores.add([[0.8, 0.2]], [0])
    >>> scores.add([[0.6, 0.4], [0.3, 0.7]], [1, 1])
    >>> scores.n, round(scores.accuracy, 4), round(scores.log_loss, 4)
    (3, 0.6667, 0.4987)
    >>> scores + scores
    Scores(6 rows, accuracy 0.6667, log loss 0.4987)
    """

    def __init__(self, bins: int = BINS) -> None:
        if bins < 1:
            raise ValueError(f"bins: expected at least 1, got {bins}")
        self.n = 0
        self.hits = 0.0
        self.log_loss_sum = 0.0
        self.brier_sum = 0.0
        self._bins = np.zeros((3, bins))
        """Number of rows, sum of confidence and number of right rows in each bin."""

    def add(self, P: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add rows and their labels.

        Parameters
        ----------
        P
            Probabilities, shape (n, m): finite, not negative, rows summing to 1 within 0.001.
        y
            The index of each row's class, integers of shape (n,) in [0, m).
        weights
            How many rows each counts as, shape (n,), from 0.01 to 100; 1 by default.

        Raises
        ------
        InvalidPrediction
            P is anything else; the message names the row. Nothing was added.
        UnknownClass
            A label is outside [0, m), or not an integer. Nothing was added.
        ValueError
            A weight is none; the message names it. Nothing was added.
        """
        rows, labels = check_rows(P, y)
        checked = None if weights is None else weights_of_labels(weights, len(labels))
        self.add_checked(rows, labels, checked)

    def add_checked(
        self,
        P: NDArray[np.float64],
        y: NDArray[np.integer[Any]],
        weights: NDArray[np.float64] | None = None,
    ) -> RowScores:
        """Add checked rows; return their :func:`score_rows`, which are of single rows."""
        n = len(y)
        row_scores, of_label = score_with_labels(P, y)
        self.n += n
        if weights is None:
            self.hits += float(np.count_nonzero(row_scores.hits))
            self.log_loss_sum += float(row_scores.losses.sum())
            self.brier_sum += float(np.einsum("ij,ij->", P, P) - 2 * of_label.sum() + n)
        else:
            self.hits += float(weights @ row_scores.hits)
            self.log_loss_sum += float(weights @ row_scores.losses)
            self.brier_sum += float(weights @ (np.einsum("ij,ij->i", P, P) - 2 * of_label + 1))
        add_to_bins(row_scores.confidence, row_scores.hits, self._bins, weights)
        return row_scores

    def __add__(self, other: Scores) -> Scores:
        """The scores of the rows of both; ValueError where their bins differ."""
        if not isinstance(other, Scores):
            return NotImplemented
        bins = self._bins.shape[1]
        if other._bins.shape[1] != bins:
            raise ValueError(f"bins: {bins} and {other._bins.shape[1]} cannot be added up")
        combined = Scores(bins)
        combined.n = self.n + other.n
        combined.hits = self.hits + other.hits
        combined.log_loss_sum = self.log_loss_sum + other.log_loss_sum
        combined.brier_sum = self.brier_sum + other.brier_sum
        combined._bins = self._bins + other._bins
        return combined

    def sums(self) -> NDArray[np.float64]:
        """Sums, shape (bins + 1, 4): n, hits and the two sums; then for each bin number of rows,
        sum of confidence, and number of right rows."""
        head = [[self.n, self.hits, self.log_loss_sum, self.brier_sum]]
        return np.concatenate([head, np.pad(self._bins.T, ((0, 0), (0, 1)))])

    @classmethod
    def from_sums(cls, sums: NDArray[np.float64]) -> Scores:
        """Restore :meth:`sums`."""
        scores = cls(len(sums) - 1)
        n, hits, scores.log_loss_sum, scores.brier_sum = sums[0].tolist()
        scores.n, scores.hits = int(n), hits
        scores._bins[:] = sums[1:, :3].T
        return scores

    @property
    def weight(self) -> float:
        """Sum of the weights of the rows: without weights their number."""
        return float(self._bins[0].sum())

    def _mean(self, total: float) -> float:
        """Mean over the rows; nan before the first row."""
        return total / self.weight if self.n else float("nan")

    @property
    def accuracy(self) -> float:
        """Share of rows whose likeliest class is the label; nan before the first row."""
        return self._mean(self.hits)

    @property
    def log_loss(self) -> float:
        """Mean of -log p[y] in nats, p[y] no smaller than 1e-6; nan before the first row."""
        return self._mean(self.log_loss_sum)

    @property
    def brier(self) -> float:
        """Mean squared distance to the label's unit vector, in [0, 2]; nan before the first row."""
        return self._mean(self.brier_sum)

    @property
    def reliability(self) -> Reliability:
        """Number of rows, mean confidence and accuracy of each bin of confidence."""
        rows, confidence, right = self._bins
        count = np.where(rows, rows, np.nan)
        return Reliability(rows.copy(), confidence / count, right / count)

    @property
    def gaps(self) -> NDArray[np.float64]:
        """Number of right rows less the sum of confidence in each bin, shape (bins,)."""
        _, confidence, right = self._bins
        gaps: NDArray[np.float64] = right - confidence
        return gaps

    @property
    def ece(self) -> float:
        """Expected calibration error: |accuracy - confidence| of the bins, weighted by rows."""
        return self._mean(float(np.abs(self.gaps).sum()))

    @property
    def mce(self) -> float:
        """Maximum calibration error: |accuracy - confidence| of the worst bin."""
        bins = self.reliability
        return float(np.nanmax(np.abs(bins.accuracy - bins.confidence))) if self.n else float("nan")

    @property
    def mean_confidence(self) -> float:
        """Mean probability of the likeliest class; nan without rows."""
        return self._mean(float(self._bins[1].sum()))

    def summary(self) -> dict[str, float]:
        """All scores by name."""
        names = ("accuracy", "log_loss", "brier", "ece", "mce")
        return {name: float(getattr(self, name)) for name in names}

    def __repr__(self) -> str:
        return f"Scores({self.n} rows, accuracy {self.accuracy:.4f}, log loss {self.log_loss:.4f})"


def scores_of(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> Scores:
    """Scores of one chunk."""
    scores = Scores(bins)
    scores.add(P, y)
    return scores
