"""Scores of predictions: accuracy, log loss, Brier score, calibration error.

Every score is a mean over rows, so :class:`Scores` can add up a stream chunk by chunk in constant
memory, and parts of a stream can be added; the functions score a single chunk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import UnknownClass
from stream_can.method.checks import checked
from stream_can.method.likeliest import add_to_bins, likeliest

__all__ = [
    "FLOOR",
    "Reliability",
    "RowScores",
    "Scores",
    "accuracy",
    "adaptive_ece",
    "brier",
    "ece",
    "log_loss",
    "log_losses",
    "mce",
    "reliability_bins",
    "score_rows",
]

BINS = 15
FLOOR = 1e-6
"""Smallest probability for log loss: a row costs at most 13.8 nats."""


class Reliability(NamedTuple):
    """Predictions in equal bins of confidence (the probability of the likeliest class)."""

    rows: NDArray[np.int64]
    """Number of rows in each bin, shape (bins,)."""
    confidence: NDArray[np.float64]
    """Mean confidence of those rows; nan in an empty bin."""
    accuracy: NDArray[np.float64]
    """Share of those rows whose likeliest class is the label; nan in an empty bin."""


class RowScores(NamedTuple):
    """Scores of rows, each of shape (n,)."""

    best: NDArray[np.intp]
    """Index of the likeliest class."""
    hits: NDArray[np.bool_]
    """Whether it is the label."""
    losses: NDArray[np.float64]
    """Log loss in nats."""
    confidence: NDArray[np.float64]
    """Probability of the likeliest class."""


def log_losses(of_label: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log losses in nats of labels with these probabilities."""
    found: NDArray[np.float64] = -np.log(np.maximum(of_label, FLOOR))
    return found


def score_rows(P: NDArray[np.float64], y: NDArray[np.integer[Any]]) -> RowScores:
    """Score checked rows, shape (n, m), by the index of each label."""
    return _scored(P, y)[0]


def _scored(
    P: NDArray[np.float64], y: NDArray[np.integer[Any]]
) -> tuple[RowScores, NDArray[np.float64]]:
    """Scores of checked rows, and the probabilities of their labels."""
    best, confidence, of_label = likeliest(np.ascontiguousarray(P), np.asarray(y, np.int64))
    return RowScores(best, best == y, log_losses(of_label), confidence), of_label


class Scores:
    """Scores of a stream, added up chunk by chunk.

    Scores of several streams can be added: ``sum(parts, Scores())``.

    Parameters
    ----------
    bins
        Equal bins of confidence for :attr:`ece`, :attr:`mce` and :attr:`reliability`, 1 <= bins.

    Attributes
    ----------
    n
        Rows added.
    hits
        Rows whose likeliest class is the label.
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
    >>> both = scores + scores
    >>> both.n, both.hits, round(both.accuracy, 4)
    (6, 4, 0.6667)
    """

    def __init__(self, bins: int = BINS) -> None:
        if bins < 1:
            raise ValueError(f"bins: expected at least 1, got {bins}")
        self.n = 0
        self.hits = 0
        self.log_loss_sum = 0.0
        self.brier_sum = 0.0
        self._bins = np.zeros((3, bins))
        """Number of rows, sum of confidence and number of right rows in each bin."""

    def add(self, P: ArrayLike, y: ArrayLike) -> None:
        """Add rows and their labels.

        Parameters
        ----------
        P
            Probabilities, shape (n, m): finite, not negative, rows summing to 1 within 0.001.
        y
            The index of each row's class, integers of shape (n,) in [0, m).

        Raises
        ------
        InvalidPrediction
            P is anything else; the message names the row. Nothing was added.
        UnknownClass
            A label is outside [0, m), or not an integer. Nothing was added.
        """
        self.add_checked(*check_rows(P, y))

    def add_checked(self, P: NDArray[np.float64], y: NDArray[np.integer[Any]]) -> RowScores:
        """Add checked rows; return their :func:`score_rows`."""
        n = len(y)
        found, of_label = _scored(P, y)
        self.n += n
        self.hits += int(np.count_nonzero(found.hits))
        self.log_loss_sum += float(found.losses.sum())
        self.brier_sum += float(np.einsum("ij,ij->", P, P) - 2 * of_label.sum() + n)
        add_to_bins(found.confidence, found.hits, self._bins)
        return found

    def __add__(self, other: Scores) -> Scores:
        """The scores of the rows of both; ValueError where their bins differ."""
        if not isinstance(other, Scores):
            return NotImplemented
        bins = self._bins.shape[1]
        if other._bins.shape[1] != bins:
            raise ValueError(f"bins: {bins} and {other._bins.shape[1]} cannot be added up")
        both = Scores(bins)
        both.n = self.n + other.n
        both.hits = self.hits + other.hits
        both.log_loss_sum = self.log_loss_sum + other.log_loss_sum
        both.brier_sum = self.brier_sum + other.brier_sum
        both._bins = self._bins + other._bins
        return both

    def sums(self) -> NDArray[np.float64]:
        """Sums, shape (bins + 1, 4): n, hits and the two sums; then for each bin number of rows,
        sum of confidence, and number of right rows."""
        head = [[self.n, self.hits, self.log_loss_sum, self.brier_sum]]
        return np.concatenate([head, np.pad(self._bins.T, ((0, 0), (0, 1)))])

    @classmethod
    def from_sums(cls, sums: NDArray[np.float64]) -> Scores:
        """Restore :meth:`sums`."""
        found = cls(len(sums) - 1)
        n, hits, found.log_loss_sum, found.brier_sum = sums[0].tolist()
        found.n, found.hits = int(n), int(hits)
        found._bins[:] = sums[1:, :3].T
        return found

    def _mean(self, total: float) -> float:
        """Mean over the rows; nan before the first row."""
        return total / self.n if self.n else float("nan")

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
        return Reliability(rows.astype(np.int64), confidence / count, right / count)

    @property
    def gaps(self) -> NDArray[np.float64]:
        """Number of right rows less the sum of confidence in each bin, shape (bins,)."""
        _, confidence, right = self._bins
        found: NDArray[np.float64] = right - confidence
        return found

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


def check_rows(P: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Check rows and label indices."""
    probs = checked(P)
    labels = np.asarray(y)
    if labels.shape != (len(probs),):
        raise UnknownClass(f"expected one label per row, shape ({len(probs)},), got {labels.shape}")
    if labels.size and labels.dtype.kind not in "iu":
        raise UnknownClass(
            f"labels: expected the index of each class as integers, got {labels.dtype}; "
            "numpy.searchsorted or a dict turns names into indices"
        )
    wrong = (labels < 0) | (labels >= probs.shape[1])
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise UnknownClass(f"row {row}: label {labels[row]} is not in [0, {probs.shape[1]})")
    return probs, labels.astype(np.intp)


def _of(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> Scores:
    """Scores of one chunk."""
    scores = Scores(bins)
    scores.add(P, y)
    return scores


def accuracy(P: ArrayLike, y: ArrayLike) -> float:
    """Share of the rows whose likeliest class is the label (ties go to the lower index).

    Parameters
    ----------
    P
        Probabilities, shape (n, m), rows summing to 1 within 0.001.
    y
        The index of each row's class, shape (n,).

    Returns
    -------
    In [0, 1]; nan for no rows.

    Raises
    ------
    InvalidPrediction, UnknownClass
        P or y is something else; the message names the row.

    Examples
    --------
    >>> accuracy([[0.8, 0.2], [0.6, 0.4]], [0, 1])
    0.5
    """
    return _of(P, y).accuracy


def log_loss(P: ArrayLike, y: ArrayLike) -> float:
    r"""Mean negative log probability of the label, in nats.

    $$ -\frac{1}{n} \sum_i \log \max(p_{i, y_i}, 10^{-6}) $$

    The floor keeps one confident mistake (a probability of zero) from being all of the mean.

    Parameters
    ----------
    P
        Probabilities, shape (n, m), rows summing to 1 within 0.001.
    y
        The index of each row's class, shape (n,).

    Returns
    -------
    In [0, 13.8]; nan for no rows.

    Raises
    ------
    InvalidPrediction, UnknownClass
        P or y is something else; the message names the row.

    Examples
    --------
    >>> round(log_loss([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    """
    return _of(P, y).log_loss


def brier(P: ArrayLike, y: ArrayLike) -> float:
    r"""Mean squared distance between the row and the label's unit vector.

    $$ \frac{1}{n} \sum_i \sum_k (p_{ik} - [k = y_i])^2 $$

    Parameters
    ----------
    P
        Probabilities, shape (n, m), rows summing to 1 within 0.001.
    y
        The index of each row's class, shape (n,).

    Returns
    -------
    In [0, 2] (Brier's own definition; for two classes twice the one-sided form); nan for no rows.

    Raises
    ------
    InvalidPrediction, UnknownClass
        P or y is something else; the message names the row.

    References
    ----------
    [^1]: Brier, Verification of forecasts expressed in terms of probability, 1950.

    Examples
    --------
    >>> round(brier([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 4)
    0.4
    """
    return _of(P, y).brier


def ece(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> float:
    r"""Expected calibration error of the likeliest class.

    $$ \sum_b \frac{n_b}{n} \left| \mathrm{acc}_b - \mathrm{conf}_b \right| $$

    where b runs over equal bins of confidence, acc is the share of right rows in a bin and conf
    their mean confidence.

    Parameters
    ----------
    P
        Probabilities, shape (n, m), rows summing to 1 within 0.001.
    y
        The index of each row's class, shape (n,).
    bins
        How many bins (0, 1] is cut into, at least 1.

    Returns
    -------
    In [0, 1]: 0 is calibrated; nan for no rows.

    Raises
    ------
    InvalidPrediction, UnknownClass
        P or y is something else; the message names the row.

    References
    ----------
    [^1]: Guo et al., On Calibration of Modern Neural Networks, ICML 2017, section 2.

    Examples
    --------
    >>> round(ece([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 4)
    0.4
    """
    return _of(P, y, bins).ece


def adaptive_ece(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> float:
    """Expected calibration error with bins that hold equally many rows.

    Equal bins of confidence leave most rows in one or two; here each bin tells as much. Rows of
    equal confidence share a bin, so that their order does not matter.

    Parameters
    ----------
    P
        Probabilities, shape (n, m), rows summing to 1 within 0.001.
    y
        The index of each row's class, shape (n,).
    bins
        How many bins the rows are cut into by their confidence, at least 1.

    Returns
    -------
    In [0, 1]: 0 is calibrated; nan for no rows.

    Raises
    ------
    InvalidPrediction, UnknownClass
        P or y is something else; the message names the row.

    References
    ----------
    [^1]: Nguyen and O'Connor, Posterior calibration and exploratory analysis for natural language
        processing models, EMNLP 2015, section 3.

    Examples
    --------
    >>> round(adaptive_ece([[0.8, 0.2], [0.6, 0.4], [0.6, 0.4]], [0, 0, 1], bins=2), 4)
    0.1333
    """
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, got {bins}")
    probs, labels = check_rows(P, y)
    n = len(labels)
    if n == 0:
        return float("nan")
    confidence = probs.max(axis=1)
    ends = -(-np.arange(1, bins) * n // bins) - 1  # the last row of each bin but the last
    edges = np.unique(np.sort(confidence)[np.maximum(ends, 0)])
    inside = np.searchsorted(edges, confidence, "left")
    gap = np.bincount(inside, (probs.argmax(axis=1) == labels) - confidence)
    return float(np.abs(gap).sum() / n)


def mce(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> float:
    """Maximum calibration error: |accuracy - confidence| of the worst bin.

    Parameters
    ----------
    P
        Probabilities, shape (n, m), rows summing to 1 within 0.001.
    y
        The index of each row's class, shape (n,).
    bins
        How many bins (0, 1] is cut into, at least 1.

    Returns
    -------
    In [0, 1]; nan for no rows. A bin of few rows can make it large by chance.

    Raises
    ------
    InvalidPrediction, UnknownClass
        P or y is something else; the message names the row.

    Examples
    --------
    >>> round(mce([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 4)
    0.6
    """
    return _of(P, y, bins).mce


def reliability_bins(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> Reliability:
    """Rows, mean confidence and accuracy in equal bins of confidence: a reliability diagram.

    Parameters
    ----------
    P
        Probabilities, shape (n, m), rows summing to 1 within 0.001.
    y
        The index of each row's class, shape (n,).
    bins
        How many bins (0, 1] is cut into, at least 1.

    Returns
    -------
    Three arrays of shape (bins,); confidence and accuracy are nan in an empty bin.

    Raises
    ------
    InvalidPrediction, UnknownClass
        P or y is something else; the message names the row.

    Examples
    --------
    >>> rows, confidence, accuracy = reliability_bins([[0.8, 0.2], [0.6, 0.4]], [0, 1], bins=2)
    >>> rows.tolist(), confidence.round(2).tolist(), accuracy.tolist()
    ([0, 2], [nan, 0.7], [nan, 0.5])
    """
    return _of(P, y, bins).reliability
