"""Logits: a classifier's scores before the softmax, as probabilities in double precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.checks import sums
from stream_can.method.rows import as_float64

__all__ = ["LARGEST_LOGIT", "of_logits", "softmax"]

Array = NDArray[np.float64]

LARGEST_LOGIT = 1e6
"""Largest magnitude of a logit: float32 has no two numbers beyond it that are closer than 1/16."""


def softmax(logits: ArrayLike) -> Array:
    r"""Probabilities of logits, in double precision whatever type they have.

    $$ p_k = \frac{e^{z_k - \max z}}{\sum_j e^{z_j - \max z}} $$

    Log probabilities are logits too. Of two classes, the logit $z$ of the second alone is the row
    $[0, z]$.

    Parameters
    ----------
    logits
        Shape (n, m), or (m,) for one row; each number finite and within 10^6.

    Returns
    -------
    Probabilities of the same shape. A row's do not depend on the rows beside it.

    Raises
    ------
    InvalidPrediction
        The shape is another, or a number is not finite or too large; the message names the row.

    Examples
    --------
    >>> softmax([[2.0, 1.0], [0.0, 40.0]])
    array([[7.31058579e-01, 2.68941421e-01],
           [4.24835426e-18, 1.00000000e+00]])
    """
    Z = as_float64(logits)
    if Z.ndim not in (1, 2) or Z.shape[-1] < 2:
        raise InvalidPrediction(
            f"logits have shape {Z.shape}, expected (m,) or (n, m): one column per class; of two"
            " classes the logit z of the second is the row [0, z]"
        )
    P, bad = of_logits(np.atleast_2d(Z))
    for i, why in bad.items():
        raise InvalidPrediction(f"row {i}: {why}" if Z.ndim == 2 else why)
    return P.reshape(Z.shape)


def of_logits(Z: Array, *, several: bool = False) -> tuple[Array, dict[int, str]]:
    """Probabilities of logits, shape (n, m), and faults, {row: reason}.

    Parameters
    ----------
    several
        Whether each number is a score of its own: then its logistic function, not the softmax.
    """
    bad: dict[int, str] = {}
    fine = np.abs(Z) <= LARGEST_LOGIT
    if not fine.all():
        for i in np.flatnonzero(~fine.all(axis=1)).tolist():
            k = int(fine[i].argmin())
            mask = "; a class that is ruled out? Give it -10000" if Z[i, k] < 0 else ""
            bad[i] = f"entry {k} is {Z[i, k]}, expected a logit within {LARGEST_LOGIT:,.0f}{mask}"
        Z = np.where(fine, Z, 0.0)
    if several:
        small = np.exp(-np.abs(Z))
        return np.where(Z >= 0, 1.0, small) / (1.0 + small), bad
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    return P / sums(P)[:, None], bad
