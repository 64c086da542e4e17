"""Calibration by bins of confidence: a single binning, or the Bayesian average of many."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, softmax

from stream_can.calibration.method import Array, OneVersusRest
from stream_can.scores.scores import BINS

STRENGTH = 2.0
"""N' of Naeini et al.: weight of a binning's prior, in rows over all bins."""
SPREAD = 10
"""C of Naeini et al.: numbers of bins are between n^(1/3)/C and C n^(1/3)."""
FEWEST = 5
"""Minimum mean number of rows in a bin: more than n/5 bins only cost time."""


class Binned(OneVersusRest):
    """A piecewise constant map."""

    def _fits(self, x: Array, y: Array) -> bool:
        return len(y) == len(x) + 1 and bool(
            (np.diff(x) >= 0).all() and ((y >= 0) & (y <= 1)).all()
        )

    def _map(self, class_map: tuple[Array, Array], p: Array) -> Array:
        edges, values = class_map
        return np.asarray(values[np.searchsorted(edges, p, "left")])


class HistogramBinning(Binned):
    r"""Each probability becomes the share of labels among the validation rows of its bin.

    $$ \theta_b = \frac{1}{n_b} \sum_{i: p_i \in b} [y_i = k] $$

    for each class k, with equal bins of [0, 1]; an empty bin answers with its middle. The results
    of the classes are divided by their sum.

    Parameters
    ----------
    bins
        Number of bins, at least 1.

    References
    ----------
    .. [1] Zadrozny, Elkan: Obtaining Calibrated Probability Estimates from Decision Trees and Naive
       Bayesian Classifiers. ICML 2001.
    .. [2] Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017, 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (10, 1)), [0] * 7 + [1] * 3
    >>> HistogramBinning().fit(P, y).transform([[0.9, 0.1]]).round(2)
    array([[0.7, 0.3]])
    """

    options = ("bins",)

    def __init__(self, bins: int = BINS) -> None:
        if bins < 1:
            raise ValueError(f"bins: expected at least 1, got {bins}")
        self.bins = bins

    def _fit_one(self, p: Array, hit: NDArray[np.bool_]) -> tuple[Array, Array]:
        edges = np.arange(1, self.bins) / self.bins
        inside = np.searchsorted(edges, p, "left")
        rows = np.bincount(inside, minlength=self.bins)
        hits = np.bincount(inside, hit, self.bins)
        middle = (np.arange(self.bins) + 0.5) / self.bins
        return edges, np.divide(hits, rows, out=middle, where=rows > 0)


class BBQ(Binned):
    r"""Bayesian binning into quantiles: an average of many binnings, weighted by their evidence.

    The binnings have B bins of equally many rows, B between $n^{1/3}/10$ and $10 n^{1/3}$, but no
    more than n/5. A bin with middle $\mu_b$, $h_b$ labels of the class and $n_b$ rows has the prior

    $$ \alpha_b = \tfrac{2}{B} \mu_b, \quad \beta_b = \tfrac{2}{B} (1 - \mu_b), \quad
       \theta_b = \frac{h_b + \alpha_b}{n_b + 2/B} $$

    and a binning the evidence

    $$ \prod_b \frac{\mathrm{B}(h_b + \alpha_b,\ n_b - h_b + \beta_b)}
       {\mathrm{B}(\alpha_b, \beta_b)} $$

    For each class, against the rest; the results are divided by their sum.

    References
    ----------
    .. [1] Naeini, Cooper, Hauskrecht: Obtaining Well Calibrated Probabilities Using Bayesian
       Binning. AAAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (1000, 1)), [0] * 700 + [1] * 300
    >>> BBQ().fit(P, y).transform([[0.9, 0.1]]).round(2)
    array([[0.7, 0.3]])
    """

    def _fit_one(self, p: Array, hit: NDArray[np.bool_]) -> tuple[Array, Array]:
        """The average of all binnings as one step function: its edges and the values between.

        The rows are sorted once; each number of bins then takes a few cuts of the sorted rows.
        """
        n, root = len(p), len(p) ** (1 / 3)
        fewest = max(1, math.floor(root / SPREAD))
        most = max(fewest, min(math.ceil(SPREAD * root), math.ceil(n / FEWEST)))
        order = np.argsort(p, kind="stable")
        p, hits = p[order], np.append(0, np.cumsum(hit[order]))
        binnings = [_binning(p, hits, bins) for bins in range(fewest, most + 1)]
        weights = softmax([evidence for _, _, evidence in binnings])
        # An average of step functions is a step function with all their steps.
        steps = [
            (edges, weight * np.diff(theta))
            for (edges, theta, _), weight in zip(binnings, weights, strict=True)
        ]
        edges = np.concatenate([edge for edge, _ in steps])
        rise = np.concatenate([step for _, step in steps])
        order = np.argsort(edges, kind="stable")
        start = sum(w * theta[0] for (_, theta, _), w in zip(binnings, weights, strict=True))
        values = np.clip(np.append(0, np.cumsum(rise[order])) + start, 0, 1)
        return edges[order], values


def _binning(p: Array, hits: NDArray[np.int64], bins: int) -> tuple[Array, Array, float]:
    """Inner edges, estimate of each bin, and log evidence.

    Parameters
    ----------
    p
        Probabilities, shape (n,), ascending.
    hits
        Number of labels of the class among the first i of them, shape (n + 1,).
    """
    n = len(p)
    cuts = np.linspace(0, n, bins + 1).round().astype(np.intp)[1:-1]
    # Halfway between two rows; equal rows stay together.
    edges = np.unique((p[cuts - 1] + p[cuts]) / 2)
    ends = np.concatenate([[0], np.searchsorted(p, edges, "right"), [n]])
    rows, of_class = np.diff(ends), np.diff(hits[ends])
    sides = np.concatenate([[0.0], edges, [1.0]])
    # An interval at 0 or 1 would have a zero prior, which can explain no label.
    middle = np.clip((sides[1:] + sides[:-1]) / 2, 1e-9, 1 - 1e-9)
    each = STRENGTH / len(rows)
    alpha, beta = each * middle, each * (1 - middle)
    evidence = betaln(of_class + alpha, rows - of_class + beta) - betaln(alpha, beta)
    return edges, (of_class + alpha) / (rows + each), float(evidence.sum())
