"""Label noise: the share of wrong labels, from the agreement of two annotators."""

from __future__ import annotations

import math


def label_noise(agreement: float, m: int) -> float:
    """The share of wrong labels, from the agreement of two annotators.

    Each is right with probability 1 - eps, otherwise all classes, including the right one, are
    equally likely: A = (1 - eps)^2 + (1 - (1 - eps)^2) / m, so eps = 1 - sqrt((A - 1/m) / (1 -
    1/m)).

    Parameters
    ----------
    agreement
        Share A of rows to which two independent annotators gave the same label.
    m
        Number of classes, 2 or more.

    Raises
    ------
    ValueError
        A is not above chance, 1/m, or exceeds 1.

    Examples
    --------
    >>> round(label_noise(0.82, 10), 3)
    0.106
    """
    if m < 2:
        raise ValueError(f"m: {m}, expected 2 classes or more")
    if not 1 / m < agreement <= 1:
        raise ValueError(
            f"agreement: {agreement}, expected a share above 1/m = {1 / m:.4g}, which is chance,"
            " and at most 1"
        )
    return 1 - math.sqrt((agreement - 1 / m) / (1 - 1 / m))
