"""A Kalman filter on log probabilities, with full covariance."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from stream_can.calibration.softmax import logs
from stream_can.compare.online import BLOCK
from stream_can.compare.stream import Stream

MOST_CLASSES = 20
"""Most classes that it plays: at 20 the covariance has 420 rows, at 100 it would have 10,100."""
HALF_LIFE = 20_000.0
"""Labels after which half of the way back to the prior is gone, if nothing else is learned."""
DEVIATION, SCALE = 0.1, 0.5
"""Standard deviations, before any label, of each weight and of a factor of all logits."""

Array = NDArray[np.float64]


class KalmanFilter:
    r"""A softmax of linear functions of log probabilities, whose weights drift.

    $$ q = \operatorname{softmax}(W \phi), \quad \phi = (\log p - \overline{\log p}, 1), \quad
       w = \operatorname{vec} W, \quad
       w_t \sim N(w_0 + \gamma (w_{t-1} - w_0), (1 - \gamma^2) P_0) $$

    where W has shape (m, m + 1), $w_0$ leaves p as it is and $P_0 = \sigma^2 M \otimes I + \tau^2
    w_0 w_0^\top$ with $M = I - 1 1^\top / m$, since what all classes have in common changes no
    row: every weight may be another, and all logits larger or smaller. On a label y, with $H = I
    \otimes \phi^\top$, r the softmax at the mean and $R = \operatorname{diag}(r) - r r^\top$ (an
    extended Kalman filter):

    $$ P \leftarrow (P^{-1} + H^\top R H)^{-1}, \quad w \leftarrow w + P H^\top (e_y - r) $$

    A row is sent as softmax of $z_k / \sqrt{1 + \pi v_k / 8}$, where z are the means of the logits
    and v their variances. A label costs a product of matrices of m (m + 1) x m and its transpose.

    Parameters
    ----------
    m
        Number of classes.
    half_life
        Labels after which $\gamma$ has come to a half.
    deviation
        $\sigma$, the standard deviation of each weight before any label.
    scale
        $\tau$, that of a factor of all logits.

    References
    ----------
    .. [1] Titsias, Galashov, Rannen-Triki, Pascanu, Teh, Bornschein: Kalman Filter for Online
       Classification of Non-Stationary Data. ICLR 2024. (The drift of the weights; there the
       label's vector is a Gaussian observation, and $\gamma$ is learned.)
    .. [2] MacKay: The Evidence Framework Applied to Classification Networks. Neural Computation 4,
       1992. (The row that is sent, there of two classes.)
    """

    def __init__(
        self,
        m: int,
        *,
        half_life: float = HALF_LIFE,
        deviation: float = DEVIATION,
        scale: float = SCALE,
    ) -> None:
        centre = np.eye(m) - 1 / m
        self._start = centre @ np.eye(m, m + 1)
        self.weights = self._start.copy()
        self._keeps = 2 ** (-1 / half_life)
        w = self._start.ravel()
        self._prior = deviation**2 * np.kron(centre, np.eye(m + 1)) + scale**2 * np.outer(w, w)
        self.covariance = self._prior.copy()

    def features(self, p: Array) -> Array:
        """Features of rows, shape (..., m + 1)."""
        x = logs(p)
        constant = np.ones((*x.shape[:-1], 1))
        return np.concatenate([x - x.mean(axis=-1, keepdims=True), constant], axis=-1)

    def predict(self, phi: Array) -> Array:
        """The row to send for the features of one row."""
        m = len(self.weights)
        blocks = np.einsum("kikj->kij", self.covariance.reshape(m, m + 1, m, m + 1))
        variance = np.maximum(blocks @ phi @ phi, 0)
        return _softmax(self.weights @ phi / np.sqrt(1 + np.pi / 8 * variance))

    def learn(self, phi: Array, label: int) -> None:
        """Let the weights drift, and learn the label of a row."""
        m, gamma, P = len(self.weights), self._keeps, self.covariance
        self.weights = self._start + gamma * (self.weights - self._start)
        P *= gamma**2
        P += (1 - gamma**2) * self._prior
        r = _softmax(self.weights @ phi)
        root = np.diag(np.sqrt(r)) - np.outer(r, np.sqrt(r))  # root @ root.T is R
        of_logits = P.reshape(-1, m, m + 1) @ phi  # P H.T, shape (m (m + 1), m)
        gain = of_logits @ root
        inner = np.eye(m) + root.T @ _through(phi, gain)
        down = np.linalg.solve(np.linalg.cholesky(inner), gain.T)
        P -= down.T @ down
        residual = -r
        residual[label] += 1
        step = of_logits @ residual - down.T @ (_through(phi, down.T).T @ residual)
        self.weights += step.reshape(m, m + 1)


def _through(phi: Array, columns: Array) -> Array:
    """H times columns of m (m + 1) numbers."""
    blocks = columns.reshape(-1, len(phi), columns.shape[1])
    return np.asarray(np.einsum("i,kij->kj", phi, blocks))


def _softmax(z: Array) -> Array:
    e = np.exp(z - z.max())
    return np.asarray(e / e.sum())


def kalman(*, fits: bool) -> Callable[[Stream], Iterator[Array]]:
    """The filter over a stream; labels are learned when they arrive, after those of the validation
    rows if ``fits``."""

    def play(stream: Stream) -> Iterator[Array]:
        n, m = stream.P.shape
        kalman_filter = KalmanFilter(m)
        if fits:
            P, y = stream.validation
            for phi, label in zip(kalman_filter.features(P), y, strict=True):
                kalman_filter.learn(phi, int(label))
        features = kalman_filter.features(stream.P)
        labelled_rows, due = stream.arrivals
        at = 0
        for first in range(0, n, BLOCK):
            rows = np.empty((min(first + BLOCK, n) - first, m))
            for i, row in enumerate(rows, first):
                while at < len(labelled_rows) and due[at] <= i:
                    j = labelled_rows[at]
                    kalman_filter.learn(features[j], int(stream.y[j]))
                    at += 1
                row[:] = kalman_filter.predict(features[i])
            yield rows

    return play
