"""Uncertainty of a row: four measures in [0, 1], 0 is certain."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.checks import normalised
from stream_can.method.rows import as_float64
from stream_can.method.settings import DEFAULTS, check_settings
from stream_can.method.uncertain import uncertainty as uncertainties

Array = NDArray[np.float64]


def topk_entropy(p: ArrayLike, k: int = DEFAULTS.k) -> Array:
    r"""Normalised entropy of the k largest probabilities of each row.

    $$ H_k(p) = -\frac{1}{\log k} \sum_{i \in \text{top-}k} \tilde p_i \log \tilde p_i $$

    where the k largest probabilities are divided by their sum to give $\tilde p$.

    Parameters
    ----------
    p
        Probabilities, shape (..., m), rows summing to 1.
    k
        Number of largest probabilities to use, 2 <= k; all of them if k >= m.

    Returns
    -------
    Shape (...,), in [0, 1]: 0 is certain, 1 is uniform over the top k. 0 where m = 1.

    Raises
    ------
    InvalidPrediction
        Where a row is not a probability vector.
    ValueError
        Where k < 2.

    References
    ----------
    .. [1] Jia et al., When in Doubt, Findings of EMNLP 2021, section 3.

    Examples
    --------
    >>> topk_entropy([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0]]).round(6)
    array([1., 0.])
    """
    return _measure(p, "topk_entropy", check_settings({"k": k})["k"])


def entropy(p: ArrayLike) -> Array:
    r"""Entropy of each row divided by $\log m$: :func:`topk_entropy` with k = m.

    Parameters
    ----------
    p
        Probabilities, shape (..., m), rows summing to 1.

    Returns
    -------
    Shape (...,), in [0, 1]. 0 where m = 1.

    Raises
    ------
    InvalidPrediction
        Where a row is not a probability vector.

    Examples
    --------
    >>> entropy([0.5, 0.5, 0, 0]).round(6)
    np.float64(0.5)
    """
    return _measure(p, "entropy", 2)


def margin(p: ArrayLike) -> Array:
    """1 - (best - second best): "best versus second best".

    Parameters
    ----------
    p
        Probabilities, shape (..., m), rows summing to 1.

    Returns
    -------
    Shape (...,), in [0, 1]. 0 where m = 1.

    Raises
    ------
    InvalidPrediction
        Where a row is not a probability vector.

    References
    ----------
    .. [1] Joshi, Porikli, Papanikolopoulos, Multi-class active learning for image classification,
       CVPR 2009.

    Examples
    --------
    >>> margin([0.5, 0.3, 0.2]).round(6)
    np.float64(0.8)
    """
    return _measure(p, "margin", 2)


def any_topk_entropy(p: ArrayLike) -> Array:
    """The largest :func:`topk_entropy` over k = 2..m.

    It reaches a threshold where the top-k entropy does so for any k, which is how the authors' own
    code decides.

    Parameters
    ----------
    p
        Probabilities, shape (..., m), rows summing to 1.

    Returns
    -------
    Shape (...,), in [0, 1]. 0 where m = 1.

    Raises
    ------
    InvalidPrediction
        Where a row is not a probability vector.

    References
    ----------
    .. [1] Jia et al., When in Doubt, Findings of EMNLP 2021, and the code published with it.

    Examples
    --------
    >>> any_topk_entropy([0.5, 0.5, 0, 0]).round(6)
    np.float64(1.0)
    """
    return _measure(p, "any_topk_entropy", 2)


def _measure(p: ArrayLike, kind: str, k: int) -> Array:
    rows = as_float64(p)
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise InvalidPrediction(f"predictions have shape {rows.shape}, expected (..., m)")
    flat = normalised(rows.reshape(-1, rows.shape[-1]))
    return uncertainties(flat, kind, k).reshape(rows.shape[:-1])[()]
