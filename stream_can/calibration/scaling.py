"""Calibration by a softmax of scaled log probabilities: temperature, vector, matrix scaling."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from stream_can.calibration.method import Array, Calibration
from stream_can.calibration.softmax import Labels, logs, loss_and_residual, softmax, temperature

STEPS = 200
"""Maximum number of L-BFGS steps; most fits need far fewer. If a class has few rows, the maximum is
far out, and stopping here generalises better than the maximum."""


class TemperatureScaling(Calibration):
    r"""One number for all classes: $\operatorname{softmax}(\log p / T)$, T by maximum likelihood.

    The order of the classes in a row, and so accuracy, is unchanged. scikit-learn's
    ``CalibratedClassifierCV(method="temperature")`` does the same.

    Attributes
    ----------
    temperature
        T, above 1 where the classifier is overconfident.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017, 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (10, 1)), [0] * 7 + [1] * 3
    >>> scaling = TemperatureScaling().fit(P, y)
    >>> scaling.transform([[0.9, 0.1]]).round(2), round(scaling.temperature, 2)
    (array([[0.7, 0.3]]), 2.59)
    """

    of_each = False
    numbers = (("temperature", 0),)

    def _fit(self, P: Array, y: Labels) -> None:
        self.temperature = temperature(P, y)

    def _transform(self, P: Array) -> Array:
        return softmax(logs(P) / self.temperature)


class VectorScaling(Calibration):
    r"""A scale and a bias for each class: $\operatorname{softmax}(w \circ \log p + b)$.

    By maximum likelihood: 200 steps of L-BFGS from the identity, or fewer where it is reached.

    Attributes
    ----------
    weights, bias
        w and b, one number for each class that the validation rows held.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017, 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (10, 1)), [0] * 7 + [1] * 3
    >>> VectorScaling().fit(P, y).transform([[0.9, 0.1]]).round(2)
    array([[0.7, 0.3]])
    """

    numbers = (("weights", 1), ("bias", 1))

    def _fit(self, P: Array, y: Labels) -> None:
        m = P.shape[1]
        start = np.concatenate([np.ones(m), np.zeros(m)])
        self.weights, self.bias = np.split(minimum(vector_loss, start, logs(P), y), 2)

    def _transform(self, P: Array) -> Array:
        return softmax(self.weights * logs(P) + self.bias)


class MatrixScaling(Calibration):
    r"""A full linear map: $\operatorname{softmax}(W \log p + b)$.

    By maximum likelihood: 200 steps of L-BFGS from the identity, or fewer where it is reached. It
    has m (m + 1) parameters, and overfits few rows without a penalty.

    Parameters
    ----------
    l2
        Penalty $l2/2\,(\|W - I\|^2 + \|b\|^2)$, added to the log loss summed over the rows. 0 is
        the method of Guo et al.

    Attributes
    ----------
    weights, bias
        W and b, of the classes that the validation rows held.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017, 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (10, 1)), [0] * 7 + [1] * 3
    >>> MatrixScaling().fit(P, y).transform([[0.9, 0.1]]).round(2)
    array([[0.7, 0.3]])
    """

    options = ("l2",)
    numbers = (("weights", 2), ("bias", 1))

    def __init__(self, l2: float = 0.0) -> None:
        if not 0 <= l2 < np.inf:
            raise ValueError(f"l2: expected a number >= 0, got {l2}")
        self.l2 = l2

    def _fit(self, P: Array, y: Labels) -> None:
        m = P.shape[1]
        start = np.concatenate([np.eye(m).ravel(), np.zeros(m)])
        parameters = minimum(matrix_loss, start, logs(P), y, self.l2)
        self.weights, self.bias = parameters[: m * m].reshape(m, m), parameters[m * m :]

    def _transform(self, P: Array) -> Array:
        return softmax(logs(P) @ self.weights.T + self.bias)


def vector_loss(parameters: Array, x: Array, y: Labels) -> tuple[float, Array]:
    """Mean log loss of vector scaling, and its gradient; parameters are w, then b."""
    weights, bias = np.split(parameters, 2)
    loss, residual = loss_and_residual(weights * x + bias, y)
    return loss, np.concatenate([np.einsum("ij,ij->j", residual, x), residual.sum(0)]) / len(y)


def matrix_loss(parameters: Array, x: Array, y: Labels, l2: float | Array) -> tuple[float, Array]:
    """Mean log loss of matrix scaling with its penalty, and its gradient; W row by row, then b.

    ``l2`` is one number for all parameters, or one for each.
    """
    n, m = x.shape
    weights, bias = parameters[: m * m].reshape(m, m), parameters[m * m :]
    loss, residual = loss_and_residual(x @ weights.T + bias, y)
    away = parameters - np.concatenate([np.eye(m).ravel(), np.zeros(m)])
    pull = l2 * away
    gradient = np.concatenate([(residual.T @ x).ravel(), residual.sum(0)]) + pull
    return loss + 0.5 / n * float(pull @ away), gradient / n


def minimum(loss: object, start: Array, *arguments: object, steps: int = STEPS) -> Array:
    """Minimise a loss that also returns its gradient, in at most ``steps`` steps."""
    solution = minimize(
        loss,
        start,
        arguments,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "ftol": 1e-10, "gtol": 1e-6},
    )
    return np.asarray(solution.x)
