"""Online Platt scaling, with and without tracking."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from stream_can.compare.stream import Stream

BLOCK = 4096
GAMMA, DIAMETER, RADIUS = 0.1, 1.0, 100.0
"""Constants of the authors' experiments."""
BINS = 10
LEAST = 1e-5
"""Probabilities are clipped this far from 0 and 1 before taking log odds, as by the authors."""

Array = NDArray[np.float64]


class OnlinePlatt:
    r"""A sigmoid of the log odds, learned by online Newton steps.

    $$ q = \sigma(a x + b), \quad \theta \leftarrow \theta - \tfrac{1}{\gamma} A^{-1} g, \quad
       A \leftarrow A + g g^\top $$

    where g is the gradient of the log loss in $\theta = (a, b)$, which starts at 0, and A starts at
    $I / (\gamma D)^2$. Beyond a norm of 100, which is rare, $\theta$ is scaled back to it.

    References
    ----------
    .. [1] Gupta, Ramdas: Online Platt Scaling with Calibeating. ICML 2023, algorithm 1.
    """

    def __init__(self) -> None:
        self.theta = np.zeros(2)
        self._inverse = (GAMMA * DIAMETER) ** 2 * np.eye(2)

    def predict(self, x: float) -> float:
        """Probability of the positive class at these log odds."""
        a, b = self.theta
        return float(1 / (1 + np.exp(-np.clip(a * x + b, -100, 100))))

    def learn(self, x: float, yes: bool) -> None:
        """Take a step on the label of a row."""
        features = np.array([x, 1.0])
        g = (self.predict(x) - yes) * features
        of_g = self._inverse @ g
        self._inverse -= np.outer(of_g, of_g) / (1 + g @ of_g)
        self.theta = self.theta - self._inverse @ g / GAMMA
        if (norm := float(np.linalg.norm(self.theta))) > RADIUS:
            self.theta *= RADIUS / norm


class Tracking:
    """Calibeating: a probability becomes the mean label of its bin (of ten) so far.

    The middle of a bin counts as one label.

    References
    ----------
    .. [1] Gupta, Ramdas: Online Platt Scaling with Calibeating. ICML 2023, section 3.
    .. [2] Foster, Hart: "Calibeating": Beating Forecasters at Their Own Game. 2023.
    """

    def __init__(self) -> None:
        self._sums = (np.arange(BINS) + 0.5) / BINS
        self._counts = np.ones(BINS)

    def bin_of(self, q: float) -> int:
        """Bin of a probability."""
        return min(int(q * BINS), BINS - 1)

    def predict(self, q: float) -> float:
        """Mean label of its bin so far."""
        k = self.bin_of(q)
        return float(self._sums[k] / self._counts[k])

    def learn(self, q: float, yes: bool) -> None:
        """Add the label of a row sent with a probability of this bin."""
        k = self.bin_of(q)
        self._sums[k] += yes
        self._counts[k] += 1


def online_platt(*, tracks: bool) -> Callable[[Stream], Iterator[Array]]:
    """Online Platt scaling of a stream, followed by calibeating if ``tracks``.

    With two classes the second's probability is scaled; with more the likeliest class's against the
    rest, which keeps its proportions. Labels are learned when they arrive.
    """

    def play(stream: Stream) -> Iterator[Array]:
        platt, tracking = OnlinePlatt(), Tracking()
        n, m = stream.P.shape
        top = np.ones(n, np.int64) if m == 2 else stream.P.argmax(axis=1)
        p = stream.P[np.arange(n), top]
        within = np.clip(p, LEAST, 1 - LEAST)
        odds = np.log(within) - np.log(1 - within)
        yes = top == stream.y
        sent = np.empty(n)
        labelled_rows, due = stream.arrivals
        at = 0
        for first in range(0, n, BLOCK):
            stop = min(first + BLOCK, n)
            rows = stream.P[first:stop].copy()
            for i in range(first, stop):
                while at < len(labelled_rows) and due[at] <= i:
                    j = labelled_rows[at]
                    platt.learn(odds[j], bool(yes[j]))
                    tracking.learn(sent[j], bool(yes[j]))
                    at += 1
                sent[i] = q = platt.predict(odds[i])
                if tracks:
                    q = tracking.predict(q)
                row = rows[i - first]
                if (rest := 1 - p[i]) > 0:
                    row *= (1 - q) / rest
                else:
                    row[:] = (1 - q) / (m - 1)
                row[top[i]] = q
            yield rows

    return play
