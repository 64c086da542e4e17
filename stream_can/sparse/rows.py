"""Rows of the likeliest of many classes, as they are given and as they are corrected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Array = NDArray[np.float64]


class SparseRow(NamedTuple):
    """A corrected row."""

    probabilities: dict[Any, float]
    """Probability by class: those of the row in order, then promoted ones."""
    rest: float
    """Total probability of all other classes."""


def shortened(rows: Sequence[SparseRow], digits: int) -> list[SparseRow]:
    """Round rows to a number of digits."""
    return [
        SparseRow({name: round(p, digits) for name, p in row.items()}, round(rest, digits))
        for row, rest in rows
    ]


class SparseRows(NamedTuple):
    """Corrected rows."""

    ids: Ids
    """Classes, shape (n, k + at most 5): those of the row, then promoted ones; padded with -1."""
    probabilities: Array
    """Their probabilities, of the same shape; padded with 0."""
    rest: Array
    """Total probability of all other classes, shape (n,)."""


class Rows(NamedTuple):
    """Checked rows, owned by the caller."""

    ids: Ids
    P: Array
    ks: Ids


class NumberedRows(NamedTuple):
    """The rows of a call, see `Rows`."""

    ids: Ids
    P: Array
    ks: Ids
    sent_blobs: list[bytes] | None = None
    """Blobs of rows that were corrected elsewhere."""
