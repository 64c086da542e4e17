"""A known class mix of the stream, as users give it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.corrector.content import in_class_order
from stream_can.method.classes import ClassIndex

TOLERANCE = 1e-3
"""How far the sum of shares may be from 1."""
LEAST = 1e-3
"""Sum of what is added to all classes, so that none is impossible."""


def mix_in_order(prior: ArrayLike | Mapping[Any, float], index: ClassIndex) -> NDArray[np.float64]:
    """Check a known class mix: shares or numbers of rows, in class order or by name.

    Texts, as of an option, are numbers in class order, or ``cat=900``.

    Returns
    -------
    Shares, shape (m,), all above 0.

    Raises
    ------
    ValueError
        It names no class, has another sum, or a number that is none or negative.
    """
    if isinstance(prior, list) and any(isinstance(text, str) and "=" in text for text in prior):
        by_text = {str(name): name for name in index}
        pairs = [str(text).rpartition("=") for text in prior]
        prior = {by_text.get(name, name): number for name, _, number in pairs}  # type: ignore[misc]
    prior = in_class_order("prior", "share", prior, index)
    try:
        shares = np.array(prior, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"prior: {prior!r}, expected a number for each class") from None
    if shares.shape != (len(index),):
        raise ValueError(f"prior: shape {shares.shape}, expected {len(index)} numbers")
    for name, share in zip(index, shares.tolist(), strict=True):
        if not 0 <= share <= 1e300:
            raise ValueError(f"prior: {share:g} of class {name!r}, expected a number >= 0")
    total = shares.sum()
    if abs(total - 1) > TOLERANCE and ((shares % 1 != 0).any() or total < 1):
        raise ValueError(f"prior: the shares sum to {total:g}, expected 1, or numbers of rows")
    known: NDArray[np.float64] = (1 - LEAST) * shares / total + LEAST / len(shares)
    return known
