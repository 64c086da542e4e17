"""Rows of the data sets that river brings."""

import numpy as np
from river import datasets


def segments(n=400):
    """Rows of seven classes in an order without runs."""
    rows = list(datasets.ImageSegments())
    np.random.default_rng(0).shuffle(rows)
    return rows[:n]


def phishing(n=400):
    return list(datasets.Phishing().take(n))
