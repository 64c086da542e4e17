"""Vector and matrix scaling with penalties determined by the numbers of rows and classes."""

from __future__ import annotations

import numpy as np

from stream_can.calibration.method import Array, Calibration
from stream_can.calibration.scaling import matrix_loss, minimum, vector_loss
from stream_can.calibration.softmax import Labels, logs, softmax, temperature

STEPS = 1000
"""Maximum number of L-BFGS steps: with the penalty the minimum is near."""


class _Structured(Calibration):
    """A linear map of log probabilities after temperature scaling."""

    temperature: float
    _even: float
    """Share of a uniform row mixed into each row, so that logarithms are bounded."""

    def _at_temperature(self, P: Array, y: Labels) -> Array:
        """Find the temperature; return the log probabilities at it."""
        self.temperature, self._even = temperature(P, y), 1 / (len(P) + 1)
        return self._scaled(P)

    def _scaled(self, P: Array) -> Array:
        even = self._even
        return np.asarray(
            np.log((1 - even) * softmax(logs(P) / self.temperature) + even / P.shape[1])
        )


class StructuredVectorScaling(_Structured):
    r"""Vector scaling behind a temperature: $\operatorname{softmax}((1 + v) \circ x + b)$.

    x are the logarithms of the rows at the temperature of greatest likelihood, mixed with a uniform
    row in the share 1 / (n + 1); then v and b make

    $$ \frac{1}{n} \sum_i -\log \operatorname{softmax}((1 + v) \circ x_i + b)_{y_i}
       + \frac{m}{n} (\|v\|^2 + \|b\|^2) $$

    least, with m classes and n rows: nothing is left to choose. ``SVSCalibrator`` of probmetrics
    does the same.

    Attributes
    ----------
    temperature, scale, bias
        T, v and b, of the classes that the validation rows held.

    References
    ----------
    .. [1] Berta, Holzmüller, Jordan, Bach: Structured Matrix Scaling for Multi-Class Calibration.
       2025.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (1000, 1)), [0] * 700 + [1] * 300
    >>> StructuredVectorScaling().fit(P, y).transform([[0.9, 0.1]]).round(2)
    array([[0.7, 0.3]])
    """

    numbers = (("temperature", 0), ("_even", 0), ("scale", 1), ("bias", 1))

    def _fit(self, P: Array, y: Labels) -> None:
        (n, m), x = P.shape, self._at_temperature(P, y)
        identity = np.concatenate([np.ones(m), np.zeros(m)])

        def loss(offsets: Array) -> tuple[float, Array]:
            data_loss, gradient = vector_loss(identity + offsets, x, y)
            return data_loss + m / n * float(offsets @ offsets), gradient + 2 * m / n * offsets

        self.scale, self.bias = np.split(minimum(loss, np.zeros(2 * m), steps=STEPS), 2)

    def _transform(self, P: Array) -> Array:
        return softmax((1 + self.scale) * self._scaled(P) + self.bias)


class StructuredMatrixScaling(_Structured):
    r"""Matrix scaling behind a temperature: $\operatorname{softmax}((I + V) x + b)$.

    As `StructuredVectorScaling`, where the entries of V beside the diagonal are pulled by
    $m (m - 1) / n$ and the others, and b, by $m / n$. ``SMSCalibrator`` of probmetrics does the
    same.

    Attributes
    ----------
    temperature, matrix, bias
        T, V and b, of the classes that the validation rows held.

    References
    ----------
    .. [1] Berta, Holzmüller, Jordan, Bach: Structured Matrix Scaling for Multi-Class Calibration.
       2025.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (1000, 1)), [0] * 700 + [1] * 300
    >>> StructuredMatrixScaling().fit(P, y).transform([[0.9, 0.1]]).round(2)
    array([[0.7, 0.3]])
    """

    numbers = (("temperature", 0), ("_even", 0), ("matrix", 2), ("bias", 1))

    def _fit(self, P: Array, y: Labels) -> None:
        m, x = P.shape[1], self._at_temperature(P, y)
        pull = np.full((m, m), float(m * (m - 1)))
        np.fill_diagonal(pull, m)
        l2 = 2 * np.concatenate([pull.ravel(), np.full(m, float(m))])
        identity = np.concatenate([np.eye(m).ravel(), np.zeros(m)])
        offsets = minimum(matrix_loss, identity, x, y, l2, steps=STEPS) - identity
        self.matrix, self.bias = offsets[: m * m].reshape(m, m), offsets[m * m :]

    def _transform(self, P: Array) -> Array:
        x = self._scaled(P)
        return softmax(x + x @ self.matrix.T + self.bias)
