"""Softmax, its log loss, and its optimal temperature."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Rows = NDArray[np.float64]
Labels = NDArray[np.intp]
TINY = 1e-12
"""Added to a probability before taking its logarithm, as in scikit-learn."""
WIDEST = 10.0
"""Bounds of the log temperature, -10 and 10, as in scikit-learn."""


def temperature(P: Rows, y: Labels) -> float:
    """Maximum likelihood T of softmax(log p / T), over all classes of the rows."""
    x = logs(P)
    solution = minimize_scalar(
        lambda u: loss_and_residual(np.exp(-u) * x, y)[0],
        bounds=(-WIDEST, WIDEST),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return float(np.exp(solution.x))


def loss_and_residual(z: Rows, y: Labels) -> tuple[float, Rows]:
    """Mean log loss of softmax(z), shape (n, m), and softmax(z) minus the labels' unit vectors."""
    rows = np.arange(len(y))
    z = z - z.max(axis=1, keepdims=True)
    of_label = z[rows, y]
    residual = np.exp(z, out=z)
    total = residual.sum(axis=1)
    residual /= total[:, None]
    residual[rows, y] -= 1
    return float((np.log(total) - of_label).mean()), residual


def softmax(z: Rows) -> Rows:
    """Softmax of each row, without overflow."""
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(z / z.sum(axis=1, keepdims=True))


def logs(P: Rows) -> Rows:
    """Logarithms of probabilities that may be 0."""
    return np.asarray(np.log(P + TINY))
