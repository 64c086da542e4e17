"""Scores of a single chunk of rows, one function each."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stream_can.scores.row_scores import check_rows
from stream_can.scores.scores import BINS, Reliability, scores_of


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
    return scores_of(P, y).accuracy


def log_loss(P: ArrayLike, y: ArrayLike) -> float:
    r"""Mean negative log probability of the label, in nats.

    $$ -\frac{1}{n} \sum_i \log \max(p_{i, y_i}, 10^{-6}) $$

    The floor keeps one confident mistake (a probability of zero) from being all of the mean.

    Parameters
    ----------
    P, y
        As for :func:`accuracy`, with the same errors.

    Returns
    -------
    In [0, 13.8]; nan for no rows.

    Examples
    --------
    >>> round(log_loss([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    """
    return scores_of(P, y).log_loss


def brier(P: ArrayLike, y: ArrayLike) -> float:
    r"""Mean squared distance between the row and the label's unit vector.

    $$ \frac{1}{n} \sum_i \sum_k (p_{ik} - [k = y_i])^2 $$

    Parameters
    ----------
    P, y
        As for :func:`accuracy`, with the same errors.

    Returns
    -------
    In [0, 2] (Brier's own definition; for two classes twice the one-sided form); nan for no rows.

    References
    ----------
    [^1]: Brier, Verification of forecasts expressed in terms of probability, 1950.

    Examples
    --------
    >>> round(brier([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 4)
    0.4
    """
    return scores_of(P, y).brier


def ece(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> float:
    r"""Expected calibration error of the likeliest class.

    $$ \sum_b \frac{n_b}{n} \left| \mathrm{acc}_b - \mathrm{conf}_b \right| $$

    where b runs over equal bins of confidence, acc is the share of right rows in a bin and conf
    their mean confidence.

    Parameters
    ----------
    P, y
        As for :func:`accuracy`, with the same errors.
    bins
        How many bins (0, 1] is cut into, at least 1.

    Returns
    -------
    In [0, 1]: 0 is calibrated; nan for no rows.

    References
    ----------
    [^1]: Guo et al., On Calibration of Modern Neural Networks, ICML 2017, section 2.

    Examples
    --------
    >>> round(ece([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 4)
    0.4
    """
    return scores_of(P, y, bins).ece


def adaptive_ece(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> float:
    """Expected calibration error with bins that hold equally many rows.

    Equal bins of confidence leave most rows in one or two; here each bin tells as much. Rows of
    equal confidence share a bin, so that their order does not matter.

    Parameters
    ----------
    P, y
        As for :func:`accuracy`, with the same errors.
    bins
        How many bins the rows are cut into by their confidence, at least 1.

    Returns
    -------
    In [0, 1]: 0 is calibrated; nan for no rows.

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
    P, y
        As for :func:`accuracy`, with the same errors.
    bins
        How many bins (0, 1] is cut into, at least 1.

    Returns
    -------
    In [0, 1]; nan for no rows. A bin of few rows can make it large by chance.

    Examples
    --------
    >>> round(mce([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 4)
    0.6
    """
    return scores_of(P, y, bins).mce


def reliability_bins(P: ArrayLike, y: ArrayLike, bins: int = BINS) -> Reliability:
    """Rows, mean confidence and accuracy in equal bins of confidence: a reliability diagram.

    Parameters
    ----------
    P, y
        As for :func:`accuracy`, with the same errors.
    bins
        How many bins (0, 1] is cut into, at least 1.

    Returns
    -------
    Three arrays of shape (bins,); confidence and accuracy are nan in an empty bin.

    Examples
    --------
    >>> rows, confidence, accuracy = reliability_bins([[0.8, 0.2], [0.6, 0.4]], [0, 1], bins=2)
    >>> rows.tolist(), confidence.round(2).tolist(), accuracy.tolist()
    ([0.0, 2.0], [nan, 0.7], [nan, 0.5])
    """
    return scores_of(P, y, bins).reliability
