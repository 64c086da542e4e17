"""Calibration by monotone regression on the labels: isotonic, or Platt's sigmoid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from stream_can.calibration.method import Array, OneVersusRest

TINY = 1e-12


class IsotonicCalibration(OneVersusRest):
    """Least-squares monotone function of each class's probability, linear between knots.

    For each class, against the rest; the results are divided by their sum. scikit-learn's
    ``CalibratedClassifierCV(method="isotonic")`` does the same.

    References
    ----------
    .. [1] Zadrozny, Elkan: Transforming Classifier Scores into Accurate Multiclass Probability
       Estimates. KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (10, 1)), [0] * 7 + [1] * 3
    >>> IsotonicCalibration().fit(P, y).transform([[0.9, 0.1]]).round(2)
    array([[0.7, 0.3]])
    """

    def _fit_one(self, p: Array, hit: NDArray[np.bool_]) -> tuple[Array, Array]:
        regression = IsotonicRegression(y_min=0, y_max=1).fit(p, hit)
        return regression.X_thresholds_, regression.y_thresholds_

    def _fits(self, x: Array, y: Array) -> bool:
        rises = (np.diff(x) > 0).all() and (np.diff(y) >= 0).all()
        return len(x) == len(y) > 0 and bool(rises and y[0] >= 0 and y[-1] <= 1)

    def _map(self, class_map: tuple[Array, Array], p: Array) -> Array:
        return np.asarray(np.interp(p, *class_map))


class PlattScaling(OneVersusRest):
    r"""A sigmoid of each class's log odds, fitted by logistic regression.

    $$ \sigma(a_k \log \tfrac{p_k}{1 - p_k} + b_k) $$

    For each class k, against the rest; the results are divided by their sum. The targets are
    Platt's: with h rows of the class among n, (h + 1)/(h + 2) instead of 1, and 1/(n - h + 2)
    instead of 0.

    References
    ----------
    .. [1] Platt: Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
       Likelihood Methods. 1999.

    Examples
    --------
    >>> import numpy as np
    >>> P, y = np.tile([0.9, 0.1], (1000, 1)), [0] * 700 + [1] * 300
    >>> PlattScaling().fit(P, y).transform([[0.9, 0.1]]).round(2)
    array([[0.7, 0.3]])
    """

    def _fit_one(self, p: Array, hit: NDArray[np.bool_]) -> tuple[Array, Array]:
        n, hits = len(hit), int(hit.sum())
        target = np.where(hit, (hits + 1) / (hits + 2), 1 / (n - hits + 2))
        # A target between 0 and 1 becomes a weighted row of each class.
        model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000)
        model.fit(
            np.tile(_log_odds(p), 2)[:, None],
            np.repeat([1, 0], n),
            sample_weight=np.concatenate([target, 1 - target]),
        )
        return model.coef_[0], model.intercept_

    def _fits(self, x: Array, y: Array) -> bool:
        return x.shape == y.shape == (1,)

    def _map(self, class_map: tuple[Array, Array], p: Array) -> Array:
        slope, intercept = class_map
        return np.asarray(expit(slope * _log_odds(p) + intercept))


def _log_odds(p: Array) -> Array:
    return np.asarray(np.log(p + TINY) - np.log(1 - p + TINY))
