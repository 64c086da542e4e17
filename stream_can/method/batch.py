"""The paper's method on a matrix of predictions, with one or several labels per row."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.checks import normalised
from stream_can.method.rows import as_float64
from stream_can.method.settings import DEFAULTS, check, check_settings
from stream_can.method.uncertain import uncertainty as uncertainties

Array = NDArray[np.float64]
AT_LEAST_1 = Annotated[int, Meta(ge=1, le=2**63 - 1)]
EXPONENT = Annotated[float, Meta(gt=0, le=1e300)]


def batch_can(
    P: ArrayLike,
    prior: ArrayLike,
    *,
    iterations: int = 1,
    alpha: float = 1.0,
    uncertainty: str = DEFAULTS.uncertainty,
    k: int = DEFAULTS.k,
    threshold: float = DEFAULTS.threshold,
    sample: int | None = None,
    seed: int | np.random.Generator | None = None,
) -> Array:
    r"""Classification with Alternating Normalization over a window of predictions.

    Each uncertain row b is stacked under the confident rows $A_0$; then, ``iterations`` times,

    $$ L \leftarrow L^{\alpha}, \quad L \leftarrow L\, D_{\text{columns}}^{-1}\, \Lambda_q, \quad
       L \leftarrow D_{\text{rows}}^{-1} L $$

    where the D hold the sums of columns and rows and $\Lambda_q$ the prior, and the last row is
    kept. A single iteration needs only the column sums of the confident rows and O(n m) memory;
    more rewrite the confident rows each time, for every uncertain row.

    Parameters
    ----------
    P
        Predictions, shape (n, m): each row finite, >= 0, with a sum within 0.001 of 1.
    prior
        Class prior, shape (m,), used unchanged; :func:`laplace` makes one from training counts.
    iterations
        The paper's d, >= 1.
    alpha
        The exponent before each normalization, > 0.
    uncertainty, k, threshold
        Rows with an uncertainty of at least ``threshold`` are corrected, as in :class:`Corrector`.
    sample
        Number of confident rows to use, drawn at random without replacement; all by default. It
        determines the speed of several iterations; use 500 or more.
    seed
        For ``sample``: anything that ``numpy.random.default_rng`` takes.

    Returns
    -------
    A new float64 array, shape (n, m): confident rows unchanged, uncertain rows corrected. Without a
    confident row the identity matrix is used instead, as in the paper's code.

    Raises
    ------
    InvalidPrediction
        A row is not a probability vector.
    ValueError
        Another argument is out of range.

    References
    ----------
    .. [1] Jia, Reiter, Lim, Artzi, Cardie: When in Doubt: Improving Classification Performance with
       Alternating Normalization. Findings of EMNLP 2021.

    Examples
    --------
    >>> from stream_can import laplace
    >>> P = [[0.2, 0, 0.8], [0.9, 0.1, 0], [0, 0, 1], [0.5, 0, 0.5]]
    >>> batch_can(P, laplace([7, 0, 0]), threshold=0.5, uncertainty="entropy")[-1].round(2)
    array([0.92, 0.  , 0.08])
    """
    rows = normalised(P)
    m = rows.shape[1]
    q = np.asarray(prior, np.float64)
    if q.shape != (m,) or not (
        np.isfinite(q).all() and (q >= 0).all() and abs(q.sum() - 1) <= 1e-3
    ):
        raise ValueError(
            f"prior: expected {m} probabilities that sum to 1; laplace(counts) makes them"
        )
    iterations = check("iterations", iterations, AT_LEAST_1)
    alpha = check("alpha", alpha, EXPONENT)
    sample = check("sample", sample, AT_LEAST_1 | None)
    settings = check_settings({"uncertainty": uncertainty, "k": k, "threshold": threshold})

    uncertain = uncertainties(rows, settings["uncertainty"], settings["k"]) >= settings["threshold"]
    confident = rows[~uncertain]
    if sample is not None and sample < len(confident):
        confident = np.random.default_rng(seed).choice(
            confident, sample, replace=False, shuffle=False
        )
    if not len(confident):
        confident = np.eye(m)
    out = rows.copy()
    if iterations == 1:
        b = rows[uncertain] ** alpha
        out[uncertain] = _rows_to_one(_over(b, (confident**alpha).sum(0) + b) * q, rows[uncertain])
        return out
    for i in np.flatnonzero(uncertain):
        L = np.vstack([confident, rows[i]])
        for _ in range(iterations):
            L **= alpha
            L = _rows_to_one(_over(L, L.sum(0)) * q, L)
        out[i] = L[-1]
    return out


def multilabel_batch_can(
    P: ArrayLike,
    positive: float,
    *,
    iterations: int = 1,
    alpha: float = 1.0,
    threshold: float = DEFAULTS.threshold,
    sample: int | None = None,
    seed: int | np.random.Generator | None = None,
) -> Array:
    r"""Classification with Alternating Normalization where a row has any number of labels.

    Each entry p is a row (p, 1 - p) of two classes, and the entries of all labels form one pool, as
    in the authors' experiments on entity typing [1]_: entries with an entropy below ``threshold``
    are the confident rows of :func:`batch_can`, the others are corrected.

    Parameters
    ----------
    P
        Probabilities, shape (n, m), each in [0, 1], that row i has label j. Rows need not sum to 1.
    positive
        Share of entries that are labels of their row, in [0, 1]: in the training data, the number
        of labels divided by rows times m.
    iterations, alpha, sample, seed
        As for :func:`batch_can`.
    threshold
        Entries whose entropy in bits is at least this are corrected.

    Returns
    -------
    A new float64 array, shape (n, m): confident entries unchanged, uncertain ones corrected.

    Raises
    ------
    InvalidPrediction
        An entry is not a probability; the text names it.
    ValueError
        Another argument is out of range.

    References
    ----------
    .. [1] Jia, Reiter, Lim, Artzi, Cardie: When in Doubt: Improving Classification Performance with
       Alternating Normalization. Findings of EMNLP 2021.

    Examples
    --------
    >>> multilabel_batch_can([[0.9, 0.02], [0.5, 0.01]], 0.25, threshold=0.7).round(2)
    array([[0.9 , 0.02],
           [0.37, 0.01]])
    """
    entries = as_float64(P)
    if entries.ndim != 2:
        raise InvalidPrediction(f"predictions have shape {entries.shape}, expected (n, labels)")
    wrong = np.argwhere(~((entries >= 0) & (entries <= 1)))
    if len(wrong):
        i, j = wrong[0].tolist()
        raise InvalidPrediction(f"row {i}, label {j}: {entries[i, j]}, expected 0 to 1")
    share = float(positive)
    if not 0 <= share <= 1:
        raise ValueError(f"positive: {positive!r}, expected a share in [0, 1]")
    corrected = batch_can(
        np.stack([entries, 1 - entries], axis=-1).reshape(-1, 2), [share, 1 - share],
        iterations=iterations, alpha=alpha, uncertainty="entropy", threshold=threshold,
        sample=sample, seed=seed,
    )  # fmt: skip
    return np.ascontiguousarray(corrected[:, 0].reshape(entries.shape))


def _over(a: Array, b: Array) -> Array:
    """a / b with 0/0 = 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape)), where=b > 0)


def _rows_to_one(a: Array, otherwise: Array) -> Array:
    """Normalise rows; a row that sums to 0 has no information and is replaced."""
    total = a.sum(1, keepdims=True)
    return np.where(total > 0, _over(a, total), otherwise)
