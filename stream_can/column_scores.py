"""Scores by value of a column, and whether labels are spread over the values like rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.scores import RowScores

HEAVIEST = 50
"""Number of most frequent values whose shares of rows and labels are compared."""
FEW_LABELS = 200
APART = 0.3
"""Minimum share of labels that differ in value from the rows, beyond chance, to be reported."""

ROWS, LABELS, SCORED = range(3)
SUMS = 6
HITS, LOSSES, CONFIDENCE = range(0, SUMS, 2)


class ValueScores(NamedTuple):
    """Scores of one value; pairs are before and after."""

    value: str
    rows: int
    labels: int
    """Labels learned with their prediction."""
    scored: float
    """Rows with a known label, each counted as its label's weight."""
    accuracy: tuple[float, float]
    log_loss: tuple[float, float]
    calibration: tuple[float, float]
    """|accuracy - mean confidence|."""

    def to_dict(self) -> dict[str, Any]:
        """The scores as JSON; None without known labels."""
        pairs = {
            name: {
                side: None if math.isnan(number) else number
                for side, number in zip(("raw", "corrected"), getattr(self, name), strict=True)
            }
            for name in ("accuracy", "log_loss", "calibration")
        }
        return {"value": self.value, "rows": self.rows, "labels": self.labels} | pairs


def outcomes(before: RowScores, after: RowScores) -> NDArray[np.float64]:
    """Outcomes of rows, shape (n, 6): hit, log loss and confidence, each before and after."""
    columns = [(a, b) for a, b in zip(before[1:], after[1:], strict=True)]
    return np.stack([score for pair in columns for score in pair], axis=1).astype(np.float64)


class ColumnScores:
    """Scores of a column's values, added up step by step; rows without a value are left out.

    Parameters
    ----------
    most
        At twice as many values, those with fewest rows are dropped to leave this many; None keeps
        all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._number: dict[str, int] = {}
        self._counts = np.zeros((0, 3))
        self._sums = np.zeros((0, SUMS))
        self._total = np.zeros(3)

    def __len__(self) -> int:
        return len(self._number)

    @property
    def rows(self) -> int:
        """Rows of all values, including dropped ones."""
        return int(self._total[ROWS])

    @property
    def labels(self) -> int:
        """Labels of all values, including dropped ones."""
        return int(self._total[LABELS])

    def came(self, texts: Sequence[str | None]) -> None:
        """Count rows with these values."""
        self._count(ROWS, self._numbers(texts))
        self._bound()

    def learned(self, texts: Sequence[str | None]) -> None:
        """Count labels whose predictions had these values."""
        self._count(LABELS, self._numbers(texts))
        self._bound()

    def scored(
        self,
        texts: Sequence[str | None],
        rows: NDArray[np.float64],
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Add outcomes of labelled rows with these values, see :func:`outcomes`, each counted as
        the weight of its label."""
        numbers = self._numbers(texts)
        self._count(SCORED, numbers, weights)
        if weights is not None:
            rows = rows * weights[:, np.newaxis]
        if (numbers < 0).any():
            numbers, rows = numbers[numbers >= 0], rows[numbers >= 0]
        at = numbers[:, np.newaxis] * SUMS + np.arange(SUMS)
        sums = np.bincount(at.ravel(), rows.ravel(), SUMS * len(self))
        self._sums += sums.reshape(-1, SUMS)
        self._bound()

    def update(self, other: ColumnScores) -> None:
        """Add the scores of other rows of the same column."""
        numbers = self._numbers(list(other._number))
        self._counts[numbers] += other._counts
        self._sums[numbers] += other._sums
        self._total += other._total
        self._bound()

    def copy(self) -> ColumnScores:
        """An independent copy."""
        copied = ColumnScores(self._most)
        copied.update(self)
        return copied

    def _numbers(self, texts: Sequence[str | None]) -> NDArray[np.intp]:
        """Number of each text, -1 for None; new ones are numbered."""
        numbers = self._number
        of_texts = [
            -1 if text is None else numbers.setdefault(text, len(numbers)) for text in texts
        ]
        if new := len(numbers) - len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros((new, 3))])
            self._sums = np.concatenate([self._sums, np.zeros((new, SUMS))])
        return np.array(of_texts, np.intp)

    def _count(
        self, column: int, numbers: NDArray[np.intp], weights: NDArray[np.float64] | None = None
    ) -> None:
        counts = np.bincount(numbers + 1, weights, minlength=len(self) + 1)[1:]
        self._counts[:, column] += counts
        self._total[column] += counts.sum()

    def _bound(self) -> None:
        """Drop the values with fewest rows, where there are too many."""
        if self._most is None or len(self) < 2 * self._most:
            return
        stay = np.sort(np.argsort(-self._counts[:, ROWS], kind="stable")[: self._most])
        names = list(self._number)
        self._number = {names[i]: k for k, i in enumerate(stay.tolist())}
        self._counts, self._sums = self._counts[stay], self._sums[stay]

    def values(self, most: int | None = None) -> list[ValueScores]:
        """Scores of values, at most ``most``, the one with most rows first."""
        names = list(self._number)
        means = self._sums / np.where(
            self._counts[:, [SCORED]] > 0, self._counts[:, [SCORED]], np.nan
        )
        scores = []
        for i in np.argsort(-self._counts[:, ROWS], kind="stable")[:most].tolist():
            rows, labels = self._counts[i, :SCORED].astype(int).tolist()
            scored = float(self._counts[i, SCORED])
            hits, losses, confidence = (
                tuple(means[i, k : k + 2].tolist()) for k in (HITS, LOSSES, CONFIDENCE)
            )
            gaps = (abs(hits[0] - confidence[0]), abs(hits[1] - confidence[1]))
            scores.append(ValueScores(names[i], rows, labels, scored, hits, losses, gaps))
        return scores

    def one_sided(self) -> tuple[list[ValueScores], float, float] | None:
        """The values with a disproportionate share of labels, with their shares of labels and rows.

        None where labels are spread over values like rows, judging by the 50 most frequent and the
        rest; where there are too few labels to tell; or more labels than known rows.
        """
        values, rows, labels = self.values(HEAVIEST), self.rows, self.labels
        if labels < FEW_LABELS or labels > rows:
            return None
        of_rows = np.array([scores.rows for scores in values]) / rows
        of_labels = np.array([scores.labels for scores in values]) / labels
        rest = np.array([[1 - of_rows.sum()], [1 - of_labels.sum()]]).clip(0)
        p, q = np.append(of_rows, rest[0]), np.append(of_labels, rest[1])
        chance = np.sqrt(p * (1 - p) / labels / (2 * math.pi)).sum()
        if 0.5 * np.abs(p - q).sum() < APART + 2 * chance:
            return None
        chosen = [i for i in np.argsort(of_rows - of_labels, kind="stable") if p[i] < q[i]][:3]
        return [values[i] for i in chosen], float(q[chosen].sum()), float(p[chosen].sum())
