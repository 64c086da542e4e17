"""Does it help: the change of a score on the same rows, and how sure it is."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["FEWEST", "STRETCHES", "Change", "Changes", "change"]

STRETCHES = 30
"""How many stretches of the stream are compared, at most."""
FEWEST = 5
"""Fewer stretches say nothing of how sure a change is."""


class Change(NamedTuple):
    """Mean scores of the same labelled rows before and after, and how sure their difference is."""

    before: float
    after: float
    error: float
    """Standard error of the difference; nan for a single stretch."""
    stretches: int

    @property
    def value(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the value lies with 95 % confidence; None where it is too early to say."""
        if self.stretches < FEWEST:
            return None
        reach = _t(self.stretches - 1) * self.error
        return self.value - reach, self.value + reach

    @property
    def rose(self) -> bool:
        """Whether it is larger than chance explains."""
        return self.interval is not None and self.interval[0] > 0

    @property
    def fell(self) -> bool:
        """Whether it is smaller than chance explains."""
        return self.interval is not None and self.interval[1] < 0


class Changes(NamedTuple):
    """Changes of accuracy and log loss on the same rows."""

    accuracy: Change
    log_loss: Change

    @classmethod
    def of_sums(cls, rows: ArrayLike, before: ArrayLike, after: ArrayLike) -> Changes | None:
        """The changes by sums over parts of a stream, see :func:`change`; None where no row is
        labelled.

        ``before`` and ``after`` are the hits and the log losses, shape (2, parts).
        """
        pairs = zip(np.asarray(before), np.asarray(after), strict=True)
        accuracy, log_loss = (change(rows, *pair) for pair in pairs)
        return None if accuracy is None or log_loss is None else cls(accuracy, log_loss)

    def summary(self) -> dict[str, float]:
        """The changes in points of percent and in nats, with their standard errors."""
        return {
            "points": 100 * self.accuracy.value,
            "points_error": 100 * self.accuracy.error,
            "nats": self.log_loss.value,
            "nats_error": self.log_loss.error,
        }

    @property
    def gain(self) -> bool:
        """Whether more is right or the log loss is lower, beyond chance."""
        return self.accuracy.rose or self.log_loss.fell

    @property
    def loss(self) -> bool:
        """Whether less is right or the log loss is higher, beyond chance."""
        return self.accuracy.fell or self.log_loss.rose

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Points, their standard error, nats and theirs, for a table."""
        points, points_error, nats, nats_error = self.summary().values()
        return f"{points:+.2f}", f"{points_error:.2f}", f"{nats:+.4f}", f"{nats_error:.4f}"

    def in_words(self) -> str:
        """Both with their standard errors."""
        points, points_error, nats, nats_error = self.cells
        return (
            f"{points} points (standard error {points_error}), {nats} nats (standard error"
            f" {nats_error})"
        )


def change(rows: ArrayLike, before: ArrayLike, after: ArrayLike) -> Change | None:
    r"""The change of a score from sums over parts of a stream, in the order of the stream.

    Both sides are of the same rows, so their differences are what counts. Rows near each other are
    alike, as are parts: neighbours are put together into at most 30 stretches of as many labels
    each, as far as the parts allow, which are long enough to know little of each other. Of
    stretches with $n_b$ labels and the summed difference $d_b$ the mean difference is
    $D = \sum d_b / \sum n_b$, with the squared standard error of a ratio of sums [^1],

    $$ \frac{B}{B-1} \frac{\sum (d_b - D n_b)^2}{(\sum n_b)^2}, $$

    and an interval by Student's t of $B - 1$ degrees [^2].

    Parameters
    ----------
    rows
        How many labelled rows each part has, shape (parts,); parts of one row are fine.
    before, after
        Sums of their scores, the same shape.

    Returns
    -------
    None where no row is labelled.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> before = rng.exponential(size=3000)
    >>> found = change(np.ones(3000), before, before - 0.1 + 0.5 * rng.standard_normal(3000))
    >>> f"{found.value:.2f}, standard error {found.error:.3f}", found.fell
    ('-0.09, standard error 0.010', True)

    References
    ----------
    [^1]: Cochran, Sampling Techniques, 3rd edition, 1977, section 6.3.
    [^2]: Schmeiser, Batch Size Effects in the Analysis of Simulation Output, Operations Research
        30, 1982: ten to thirty batches are enough, and more are worth little.
    """
    sums = np.array([rows, before, after], np.float64)
    sums = sums[:, sums[0] > 0]
    if not sums.size:
        return None
    if sums.shape[1] > STRETCHES:
        middle = np.cumsum(sums[0]) - sums[0] / 2
        stretch = (middle * (STRETCHES / sums[0].sum())).astype(np.intp)
        sums = np.array([np.bincount(stretch, one, STRETCHES) for one in sums])
        sums = sums[:, sums[0] > 0]
    n, d, blocks = sums[0], sums[2] - sums[1], sums.shape[1]
    total = float(n.sum())
    error = math.nan
    if blocks > 1:
        off = d - d.sum() / total * n
        error = math.sqrt(blocks / (blocks - 1) * float(off @ off)) / total
    return Change(float(sums[1].sum() / total), float(sums[2].sum() / total), error, blocks)


def _t(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, to 1 in 1,000 from 4 degrees on (Cornish and Fisher)."""
    x = 1 / degrees
    return 1.959964 + x * (2.372271 + x * (2.822498 + x * (2.555850 + x * 1.589535)))
