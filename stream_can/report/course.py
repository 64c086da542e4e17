"""Course: quantities over a stream, in a sliding window of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.replay.result import Replay

POINTS = 240


class Course:
    """The points at which a replay is drawn, each the end of a window of rows."""

    def __init__(self, result: Replay) -> None:
        self.window = min(max(result.rows / 25, 500), result.rows / 2)
        """Number of rows in the window."""
        self.at = np.linspace(self.window, result.rows, POINTS)
        """Row of each point."""
        self.result = result
        self.moments: Sequence[Any] = result.moments
        self._rows = np.array([moment.row for moment in result.moments])

    def sums(self, values: ArrayLike) -> NDArray[np.float64]:
        """Sums over the window before each point, shape (points, k).

        Parameters
        ----------
        values
            Contributions of the moments, shape (moments, k).
        """
        total = np.cumsum(values, axis=0)
        total = np.concatenate([np.zeros((1, total.shape[1])), total])
        rows = np.append(0, self._rows)
        ends = [
            np.stack([np.interp(at, rows, column) for column in total.T], axis=1)
            for at in (self.at, self.at - self.window)
        ]
        return np.asarray(ends[0] - ends[1])

    def means(self, quantity: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means per labelled row before and after, and their standard errors.

        Parameters
        ----------
        quantity
            "hits" or "losses", attributes of moments.

        Returns
        -------
        Two arrays of shape (2, points), nan where the window has no label. Standard errors treat
        rows as independent.
        """
        squares = {"hits": "hits", "losses": "squares"}[quantity]
        sums = self.sums([
            (*getattr(m, quantity), *getattr(m.by_square, quantity),
             *getattr(m.by_square, squares), m.labelled, m.by_square.labelled)
            for m in self.moments
        ])  # fmt: skip
        return _with_errors(sums[:, :2].T, sums[:, 2:4].T, sums[:, 4:6].T, *sums[:, 6:].T)

    def changes(self, quantity: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean change per labelled row, after minus before, and its standard error.

        Parameters
        ----------
        quantity
            "hits" or "losses", attributes of moments.

        Returns
        -------
        Two arrays of shape (points,), nan where the window has no label. Standard errors are of the
        rows' differences, and treat rows as independent.
        """
        k = ("hits", "losses").index(quantity)
        sums = self.sums(
            [
                (getattr(m, quantity)[1] - getattr(m, quantity)[0], m.by_square.gains[k],
                 m.by_square.differences[k], m.labelled, m.by_square.labelled)
                for m in self.moments
            ]
        )  # fmt: skip
        return _with_errors(*sums.T)

    def values(self, values: NDArray[Any] | list[float]) -> NDArray[np.float64]:
        """A number of each moment, at each point."""
        return np.asarray(np.interp(self.at, self._rows, values))

    def of_label(self, number: int) -> Any:
        """Position on the x axis of the labelled row with this number."""
        labelled = np.cumsum([moment.n for moment in self.moments])
        row = np.interp(number, np.append(0, labelled), np.append(0, self._rows))
        if not self.result.dates:
            return row
        microseconds = np.interp(row, self.at, self.x.astype(np.int64))
        return np.datetime64(int(microseconds), "us")

    @property
    def unit(self) -> float:
        """Mean weight of a label."""
        n = sum(moment.n for moment in self.moments)
        return sum(moment.labelled for moment in self.moments) / n if n else 1.0

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of rows of each moment."""
        return np.diff(self._rows, prepend=0)

    @property
    def x(self) -> NDArray[Any]:
        """Positions of the points on the x axis: dates, else rows."""
        if not self.result.dates:
            return self.at
        times = np.array([moment.time for moment in self.moments]).astype("datetime64[us]")
        return self.values(times.astype(np.int64)).astype(np.int64).astype("datetime64[us]")


def share_errors(
    shares: NDArray[np.float64], sums: NDArray[np.float64], rows: NDArray[np.float64],
    squares: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    r"""Standard errors of shares $s$ of weighted rows, $\sqrt{\sum w^2 (x - s)^2} / \sum w$ with
    $x$ 1 or 0: that of $n$ rows that count once is $\sqrt{s (1 - s) / n}$.

    ``sums`` are $\sum w^2 x$, ``rows`` $\sum w$ and ``squares`` $\sum w^2$.
    """
    variance = shares * (1 - shares)
    variance = variance + (sums / rows - shares) * (1 - 2 * shares)
    variance = variance + (squares / rows - 1) * shares**2
    return np.asarray(np.sqrt(np.maximum(variance, 0) / rows))


def _with_errors(
    sums: NDArray[np.float64], firsts: NDArray[np.float64], seconds: NDArray[np.float64],
    rows: NDArray[np.float64], squares: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    r"""Means $\mu = \sum w x / \sum w$ of weighted rows and their standard errors
    $\sqrt{\sum w^2 (x - \mu)^2} / \sum w$ [^1]; nan where there is no row.

    ``sums`` are $\sum w x$, ``firsts`` $\sum w^2 x$, ``seconds`` $\sum w^2 x^2$, ``rows``
    $\sum w$ and ``squares`` $\sum w^2$.

    References
    ----------
    [^1]: Cochran, Sampling Techniques, 3rd edition, 1977, section 6.3: a ratio of sums.
    """
    n = np.where(rows > 0, rows, np.nan)
    mean = sums / n
    slope = 2 * firsts / n - mean * (squares / n)
    return mean, np.sqrt(np.maximum(seconds / n - mean * slope, 0) / n)
