"""The class prior of the training set."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def laplace(counts: ArrayLike) -> Array:
    r"""Class prior from training counts, smoothed so that no class is impossible.

    $$ q_i = \frac{n_i + 1}{\sum_j (n_j + 1)} $$

    Parameters
    ----------
    counts
        Training rows per class, shape (m,), finite and >= 0.

    Returns
    -------
    Probabilities, shape (m,).

    Raises
    ------
    ValueError
        Where a count is negative or not finite, or where the counts are frequencies.

    Examples
    --------
    >>> laplace([7, 0, 0])
    array([0.8, 0.1, 0.1])
    """
    n = np.asarray(counts)
    if n.ndim != 1 or not len(n) or n.dtype.kind not in "fiub":
        raise ValueError(f"training counts: expected m numbers, got {n.dtype} of shape {n.shape}")
    n = n.astype(np.float64)
    if not ((n >= 0) & (n <= 1e300)).all():
        raise ValueError("training counts: each must be finite and >= 0, at most 1e300")
    if abs(n.sum() - 1) < 1e-3 and (n % 1 != 0).any():
        raise ValueError(
            "training counts sum to 1: these are frequencies, pass the numbers of rows"
        )
    q: Array = (n + 1) / (n + 1).sum()
    return q
