"""ChangeTests: e-processes of errors and losses, over all starts of a change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.trust import evidence
from stream_can.trust.episode import Episode
from stream_can.trust.locking import Locked

REFERENCE = 1000
"""Number of labels in the reference of log losses."""
MOST_LOSS = 6.0
"""Log losses are clipped at this many nats for the test."""
BETS = 2.0 ** -np.arange(1.0, 7.0)
PER_OCTAVE = 16
"""Minimum number of starts kept per doubling of their age."""
TESTED = 6
"""Number of sums before those of the bets: of errors, losses and x of both sides."""
SUMS = TESTED + 2 * len(BETS)

Array = NDArray[np.float64]


class ChangeTests(Locked):
    """The part of an `Alarm` that gathers evidence."""

    level: float
    n: int
    """Number of labels."""
    episodes: list[Episode]
    """The last 20 episodes, oldest first; the last may be open."""

    def _begin(self) -> None:
        """Start over without knowledge."""
        self._restarted = self._looked = self.n
        # Since then: errors, losses and x of both sides, and log wealths of two tests: of the
        # losses of both sides, or during an episode of accuracy and loss of one side.
        self._sums = np.zeros(SUMS)
        self._starts = np.zeros(0, np.int64)
        """Number of labels before each kept start, since then."""
        self._before = np.zeros((0, SUMS))
        """The sums before each start."""
        self._times = np.zeros(0)
        self._fresh: list[tuple[NDArray[np.int64], Array, Array]] = []
        """The same for starts since the last test."""
        self._reference = np.zeros((2, 2))
        """Sums of x and its square over the first 1000 labels, for each side."""
        self._bounds = np.full(2, np.nan)
        """Bounds of means: of the losses of both sides; during an episode of accuracy, and of 1 - x
        of the loss, half way to the level before, or 1 where that was not better."""
        self._worse = np.zeros(5)
        """Labels, errors and losses of an episode before it was noticed."""

    @property
    def episode(self) -> Episode | None:
        """The open episode, if any."""
        last = self.episodes[-1] if self.episodes else None
        return last if last is not None and last.until is None else None

    def _learn(self, wrong: Array, loss: Array, times: Array) -> None:
        """Learn labels of which at most the last is followed by a test."""
        n, k = self.n - self._restarted, len(wrong)
        changes = np.zeros((k + 1, SUMS))
        changes[0] = self._sums
        changes[1:, :2], changes[1:, 2:4] = wrong, loss
        changes[1:, 4:TESTED] = x = np.minimum(loss, MOST_LOSS) / MOST_LOSS
        episode = self.episode
        if episode is not None:
            side = episode.side
            better = np.stack([1 - wrong[:, side], 1 - x[:, side]], 1)
            changes[1:, TESTED:] = self._wealth(better)
        elif n >= REFERENCE:
            changes[1:, TESTED:] = self._wealth(x)
        else:
            sums = np.concatenate([self._reference.T[None], np.stack([x, x * x], 1)])
            self._reference = sums.cumsum(axis=0)[-1].T.copy()
            if n + k == REFERENCE:
                self._bounds = self._bound()
        sums = changes.cumsum(axis=0)
        self._fresh.append((np.arange(n, n + k), sums[:-1], times))
        self._sums = sums[-1].copy()
        self.n += k

    def _wealth(self, x: Array) -> Array:
        """Growth of the log wealths of bets that each of two numbers, (k, 2), exceeds its bound."""
        shares = BETS / self._bounds[:, None]
        growth: Array = np.log1p(shares * (x - self._bounds)[:, :, None])
        return growth.reshape(len(x), -1)

    def _gather(self) -> None:
        """Merge the starts since the last test into the others."""
        if self._fresh:
            starts, sums, times = zip(*self._fresh, strict=True)
            self._starts = np.concatenate([self._starts, *starts])
            self._before = np.concatenate([self._before, *sums])
            self._times = np.concatenate([self._times, *times])
            self._fresh = []

    def _bound(self) -> Array:
        """An upper bound of the mean of each side (Maurer and Pontil 2009), at level / 8."""
        mean = self._reference[:, 0] / REFERENCE
        squares = self._reference[:, 1] - REFERENCE * mean**2
        variance = np.maximum(squares, 0) / (REFERENCE - 1)
        term = math.log(2 / (self.level / 8))
        bound = mean + np.sqrt(2 * variance * term / REFERENCE) + 7 * term / (3 * (REFERENCE - 1))
        return np.minimum(bound, 1.0)

    def _thin(self) -> None:
        """Keep all young starts, and of older ones every second, fourth and so on."""
        ages = self.n - self._restarted - self._starts
        step = 2 ** np.maximum(np.frexp(ages / PER_OCTAVE)[1] - 1, 0).astype(np.int64)
        keep = self._starts % step == 0
        if not keep.all():
            self._starts, self._times = self._starts[keep], self._times[keep]
            self._before = self._before[keep]

    def _errors(self, side: int) -> tuple[float, int]:
        """Log of the e-value that errors of a side have increased, and the likeliest start."""
        n = self.n - self._restarted
        return evidence.more_errors(self._starts, self._before, side, self._sums[side], n)

    def _bets(self, k: int, first: int) -> tuple[float, int]:
        """Log of the e-value that the k-th tested number has exceeded its bound since some start,
        from ``first`` on, and the likeliest start."""
        column = TESTED + k * len(BETS)
        return evidence.wealth(self._starts, self._before, self._sums, column, len(BETS), first)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "sums": self._sums, "starts": self._starts, "before": self._before,
            "times": self._times, "reference": self._reference, "bounds": self._bounds,
            "worse": self._worse,
        }  # fmt: skip
