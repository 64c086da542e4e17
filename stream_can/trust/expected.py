"""Expected accuracy: how right rows are whose labels are not known yet."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.checks import checked
from stream_can.method.rows import wrong_shape
from stream_can.scores.row_scores import check_rows

Array = NDArray[np.float64]
ROWS, LABELS = 2000.0, 400.0
"""Half-lives of what labels said: in rows, and in labels."""
UNKNOWN = 0.25
"""Standard deviation of accuracy less confidence where no label says anything of it."""
MOVES = 0.02
"""Standard deviation of what it changes by between the labels and the rows."""
MOST_CLASSES = 256
"""Classes up to which confusion is kept."""


class Interval(NamedTuple):
    """A number between 0 and 1 with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


class Gap(NamedTuple):
    """Accuracy less confidence of labelled predictions: decayed sums over labels."""

    labels: float = 0.0
    """Sum of the weights."""
    gap: float = 0.0
    """Weighted sum of 1 or 0, whether the label was the likeliest class, less its probability."""
    excess: float = 0.0
    """Weighted sum of w - 1, for labels that count as w: 0 where each counts once."""

    @property
    def effective(self) -> float:
        """Number of labels that count once and tell as much: (sum w)^2 / sum w^2, decayed."""
        return self.labels / ((self.labels + self.excess) / self.labels)

    def after_rows(self, n: int) -> Gap:
        """The sums n rows later: halved after 2,000."""
        decay = 0.5 ** (n / ROWS)
        return Gap(decay * self.labels, decay * self.gap, decay * self.excess)

    def with_labels(self, gaps: Array, counts: Array | None = None) -> Gap:
        """The sums with more labels, in order, and how many each counts as (1 by default): each
        label makes those before it lighter, by half in 400."""
        k = len(gaps)
        weights = 0.5 ** (np.arange(k)[::-1] / LABELS)
        decay, excess = 0.5 ** (k / LABELS), 0.0
        if counts is not None:
            weights *= counts
            excess = float(weights @ (counts - 1))
        return Gap(
            decay * self.labels + float(weights.sum()),
            decay * self.gap + float(weights @ gaps),
            decay * self.excess + excess,
        )


def expected_accuracy(rows: float, confidence: float, doubt: float, gap: Gap) -> Interval:
    r"""Estimate the accuracy of rows from their confidence, and from labels of other rows.

    Without labels it is the mean confidence $c = \frac{1}{n} \sum_i \max_k p_{ik}$, as calibrated
    rows would have it [^1]. Labels tell the gap, with weights $w$ that fade and $N = \sum w$ (of
    labels with weights their effective number, $(\sum w)^2 / \sum w^2$): with
    $s^2 = 0.02^2 + 1 / (4 N)$ and the prior $N(0, 0.25^2)$ its posterior has the mean

    $$ g = \frac{0.25^2}{0.25^2 + s^2} \frac{\sum w (hit - confidence)}{N} $$

    and the variance $v = 1 / (0.25^{-2} + s^{-2})$. The correction learns from the same labels, so
    part of the gap is gone by now, and nobody knows which: half is added, and half is uncertain.
    The interval is

    $$ c + g/2 \pm 1.96 \sqrt{\sum_i p_i (1 - p_i) / n^2 + v + 0.02^2 + g^2 / 4}. $$

    Parameters
    ----------
    rows
        Number of rows n.
    confidence
        Sum of their largest probabilities p.
    doubt
        Sum of p (1 - p).
    gap
        What labels said; without any the interval is 49 points wide either way or more.

    References
    ----------
    [^1]: Guillory et al., Predicting with confidence on unseen distributions, ICCV 2021, call it
        average confidence; NannyML, confidence-based performance estimation.
    """
    if not rows:
        return Interval(math.nan, 0.0, 1.0)
    mean, variance, g = confidence / rows, doubt / rows**2, 0.0
    if gap.labels > 0:
        noise = MOVES**2 + 1 / (4 * gap.effective)
        g = UNKNOWN**2 / (UNKNOWN**2 + noise) * gap.gap / gap.labels
        variance += 1 / (UNKNOWN**-2 + 1 / noise) + MOVES**2
    else:
        variance += UNKNOWN**2
    value = min(max(mean + g / 2, 0.0), 1.0)
    reach = 1.96 * math.sqrt(variance + g * g / 4)
    return Interval(value, max(0.0, value - reach), min(1.0, value + reach))


class ExpectedAccuracy:
    """How right the last rows are, before their labels come: accuracy and confusion.

    The formula is that of :func:`expected_accuracy`; rows and labels of long ago count less, half
    after 2,000 rows.

    Parameters
    ----------
    classes
        Number of classes m.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet([0.3, 0.3, 0.3], 4000)  # calibrated rows
    >>> y = (rng.random((4000, 1)) < P.cumsum(axis=1)).argmax(axis=1)
    >>> expected = ExpectedAccuracy(3)
    >>> expected.add_rows(P[:3000])
    >>> expected.add_labels(P[:2000], y[:2000])
    >>> value, low, high = expected.accuracy
    >>> bool(low < (P[2000:3000].argmax(axis=1) == y[2000:3000]).mean() < high)
    True
    """

    def __init__(self, classes: int) -> None:
        if not isinstance(classes, int) or classes < 2:
            raise ValueError(f"classes: {classes!r}, expected their number, 2 or more")
        self._classes = classes
        self._sums = np.zeros(3)
        self._gap = Gap()
        self._confusion = np.zeros((classes, classes)) if classes <= MOST_CLASSES else None

    def add_rows(self, sent: ArrayLike) -> None:
        """Add rows as they were sent, shape (n, m)."""
        P = self._of_this_width(checked(sent))
        best, n = P.argmax(axis=1), len(P)
        weights = 0.5 ** (np.arange(n)[::-1] / ROWS)
        decay = 0.5 ** (n / ROWS)
        top = P[np.arange(n), best]
        self._sums = decay * self._sums + [
            weights.sum(), weights @ top, weights @ (top * (1 - top)),
        ]  # fmt: skip
        if self._confusion is not None:
            self._confusion *= decay
            np.add.at(self._confusion, best, weights[:, None] * P)
        self._gap = self._gap.after_rows(n)

    def add_labels(self, sent: ArrayLike, y: ArrayLike) -> None:
        """Add labels: the rows as they were sent, shape (n, m), and the indices of their labels."""
        P, labels = check_rows(sent, y)
        self._of_this_width(P)
        self._gap = self._gap.with_labels((P.argmax(axis=1) == labels) - P.max(axis=1))

    def _of_this_width(self, P: Array) -> Array:
        if P.shape[1] != self._classes:
            raise InvalidPrediction(wrong_shape(P.shape, 2, self._classes))
        return P

    @property
    def accuracy(self) -> Interval:
        """Expected accuracy of the last rows; nan without rows."""
        rows, confidence, doubt = self._sums.tolist()
        return expected_accuracy(rows, confidence, doubt, self._gap)

    @property
    def confusion(self) -> Array | None:
        """Expected share of the last rows by predicted class and label, shape (m, m); None above
        256 classes. It is that of calibrated rows: labels do not change it."""
        return None if self._confusion is None else self._confusion / max(self._sums[0], 1e-300)
