"""A known class mix of the stream, as users give it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.corrector.content import in_class_order
from stream_can.method.classes import ClassIndex

Shares = NDArray[np.float64]
TOLERANCE = 1e-3
"""How far the sum of shares may be from 1."""
NOT_KNOWN = ["none"]
"""What an option says where no mix is known any more."""
LEAST = 1e-3
"""Sum of what is added to all classes, so that none is impossible."""


def mix_in_order(prior: ArrayLike | Mapping[Any, float] | None, index: ClassIndex) -> Shares | None:
    """Check a known class mix: shares or numbers of rows, in class order or by name.

    Texts, as of an option, are numbers in class order, ``cat=900``, or alone ``none``.

    Returns
    -------
    Shares, shape (m,), all above 0; None where no mix is known.

    Raises
    ------
    ValueError
        It names no class, or one twice, has another sum, or a number that is none or negative.
    """
    if prior is None or (isinstance(prior, list) and prior == NOT_KNOWN):
        return None
    if isinstance(prior, list) and any(isinstance(text, str) and "=" in text for text in prior):
        by_text = {str(name): name for name in index}
        numbers = dict[Any, Any]()
        for text in prior:
            name, equals, number = str(text).rpartition("=")
            if not equals:
                raise ValueError(f"prior: {text!r}, expected CLASS=NUMBER as of the others")
            if by_text.get(name, name) in numbers:
                raise ValueError(f"prior: class {name!r} is named twice")
            numbers[by_text.get(name, name)] = number
        prior = numbers
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
    known: Shares = (1 - LEAST) * shares / total + LEAST / len(shares)
    return known


def same_mix(mix: Shares | None, other: Shares | None) -> bool:
    """Whether two mixes are the same, but for rounding; None where none is known."""
    if mix is None or other is None:
        return mix is other
    return np.allclose(mix, other, rtol=1e-9, atol=0)
