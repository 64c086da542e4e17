"""What numbers that are no probabilities may be, and the option that helps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.recording.table import Batch

FEWEST_LOGITS = 50
"""Rows from which on single logits that are never negative are doubted."""


def said_of(why: str, row: NDArray[np.float64], cells: Any, column: str) -> str:
    """What is wrong with a row, and what its numbers may be, judging by the cells of the rows
    around it."""
    if np.isnan(row).any():
        return why
    scores = _numbers_alone(cells)
    if scores and min(scores) >= 0:
        said = (
            f"{column}: {row[-1]:.6g} is no probability of the second class; there are"
            f" {min(scores):.4g} to {max(scores):.4g}"
        )
        return said + (": percentages? Divide by 100" if 10 < max(scores) <= 100 else "")
    if row.min() < 0:
        return f"{why}; logits? Add --logits"
    if abs(row.sum() - 100) <= min(len(row) / 2, 50):
        return f"{why}; percentages? Add --normalise always"
    return why


def missing_hint(batches: Iterable[Batch]) -> str:
    """How many rows lack a probability, and what to do."""
    n = sum(int(np.isnan(batch.probs).any(axis=1).sum()) for batch in batches)
    rows = "1 row lacks" if n == 1 else f"{n:,} rows lack"
    return f"; {rows} one. Leave such rows out, or fill in what was used in their place"


class SingleLogits:
    """Range of single numbers that are read as logits of the second of two classes.

    Parameters
    ----------
    column
        Where they are.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.rows, self.least, self.largest = 0, np.inf, -np.inf

    def add_rows(self, Z: NDArray[np.float64]) -> None:
        """Add rows (0, logit), shape (n, 2); rows of two logits leave nothing to doubt."""
        self.rows += len(Z)
        self.least = min(self.least, -np.inf if Z[:, 0].any() else float(Z[:, 1].min()))
        self.largest = max(self.largest, float(Z[:, 1].max()))

    def doubts(self) -> list[str]:
        """A question where none is negative; empty without any."""
        if not 0 <= self.least < self.largest or self.rows < FEWEST_LOGITS:
            return []
        return [
            f"{self.column} is {self.least:.4g} to {self.largest:.4g}, never negative as logits"
            " are: percentages or other scores? Leave --logits out, and divide percentages by 100."
        ]


def _numbers_alone(cells: Any) -> list[float]:
    """Cells of one number each; empty where some are whole rows or missing."""
    if isinstance(cells, np.ndarray):
        return []
    try:
        return [float(cell) for cell in cells]
    except (TypeError, ValueError):
        return []
