"""How well the rows of each value of a column are predicted, and where its labels come from."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.scores import FLOOR

__all__ = ["ColumnScores", "ValueScores"]

HEAVIEST = 50
"""So many values, by their rows, are compared with their share of the labels."""
FEW_LABELS = 200
APART = 0.3
"""So much of the labels must be of other values than the rows are, beyond chance, to be said."""

ROWS, LABELS, SCORED = range(3)
HITS, LOSSES, CONFIDENCE = range(0, 6, 2)


class ValueScores(NamedTuple):
    """One value: pairs are of before and after."""

    value: str
    rows: int
    labels: int
    """Learned with their prediction."""
    scored: int
    """Rows whose label is known."""
    accuracy: tuple[float, float]
    log_loss: tuple[float, float]
    calibration: tuple[float, float]
    """How far accuracy is from the mean confidence."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON would have it; None where no label is known."""
        pairs = {
            name: {
                side: None if math.isnan(number) else number
                for side, number in zip(("raw", "corrected"), getattr(self, name), strict=True)
            }
            for name in ("accuracy", "log_loss", "calibration")
        }
        return {"value": self.value, "rows": self.rows, "labels": self.labels} | pairs


class ColumnScores:
    """The values of a column, added up step by step; rows that give none are left out."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._counts = np.zeros((0, 3), np.int64)
        self._sums = np.zeros((0, 6))

    def __len__(self) -> int:
        return len(self._number)

    def add(
        self,
        texts: NDArray[np.object_],
        P: NDArray[np.float64],
        corrected: NDArray[np.float64],
        y: NDArray[np.int64],
    ) -> None:
        """Add rows, shape (n, m), before and after, and the index of each label, -1 for none."""
        which = self._numbers(texts)
        self._counts[:, ROWS] += np.bincount(which[which >= 0], minlength=len(self))
        at = np.flatnonzero((which >= 0) & (y >= 0))
        of, label, n = which[at], y[at], len(self)
        self._counts[:, SCORED] += np.bincount(of, minlength=n)
        for side, rows in enumerate((P[at], corrected[at])):
            best = rows.argmax(axis=1)
            each = np.arange(len(at))
            losses = -np.log(np.maximum(rows[each, label], FLOOR))
            self._sums[:, HITS + side] += np.bincount(of, best == label, n)
            self._sums[:, LOSSES + side] += np.bincount(of, losses, n)
            self._sums[:, CONFIDENCE + side] += np.bincount(of, rows[each, best], n)

    def learned(self, texts: NDArray[np.object_]) -> None:
        """Labels came whose predictions gave these."""
        which = self._numbers(texts)
        self._counts[:, LABELS] += np.bincount(which[which >= 0], minlength=len(self))

    def _numbers(self, texts: NDArray[np.object_]) -> NDArray[np.intp]:
        """The number of each text, -1 for none; new ones have places from now on."""
        number = self._number
        found = [
            -1 if text is None else number.setdefault(text, len(number)) for text in texts.tolist()
        ]
        new = len(number) - len(self._counts)
        self._counts = np.pad(self._counts, [(0, new), (0, 0)])
        self._sums = np.pad(self._sums, [(0, new), (0, 0)])
        return np.array(found, np.intp)

    def values(self) -> list[ValueScores]:
        """Each value, the one with most rows first."""
        names = list(self._number)
        means = self._sums / np.where(
            self._counts[:, [SCORED]] > 0, self._counts[:, [SCORED]], np.nan
        )
        found = []
        for i in np.argsort(-self._counts[:, ROWS], kind="stable").tolist():
            rows, labels, scored = self._counts[i].tolist()
            hits, losses, confidence = (
                tuple(means[i, k : k + 2].tolist()) for k in (HITS, LOSSES, CONFIDENCE)
            )
            gaps = (abs(hits[0] - confidence[0]), abs(hits[1] - confidence[1]))
            found.append(ValueScores(names[i], rows, labels, scored, hits, losses, gaps))
        return found

    def one_sided(self) -> tuple[list[ValueScores], float, float] | None:
        """The values that most labels come from, with their shares of labels and of rows.

        None where labels come from the values as rows do, as far as the heaviest 50 and the rest
        say, or are too few to say it.
        """
        values = self.values()[:HEAVIEST]
        rows, labels = self._counts[:, ROWS].sum(), self._counts[:, LABELS].sum()
        if labels < FEW_LABELS:
            return None
        of_rows = np.array([one.rows for one in values]) / rows
        of_labels = np.array([one.labels for one in values]) / labels
        rest = np.array([[1 - of_rows.sum()], [1 - of_labels.sum()]]).clip(0)
        p, q = np.append(of_rows, rest[0]), np.append(of_labels, rest[1])
        chance = np.sqrt(p * (1 - p) / labels / (2 * math.pi)).sum()
        if 0.5 * np.abs(p - q).sum() < APART + 2 * chance:
            return None
        chosen = [i for i in np.argsort(of_rows - of_labels, kind="stable") if p[i] < q[i]][:3]
        return [values[i] for i in chosen], float(q[chosen].sum()), float(p[chosen].sum())
