"""SparseScores: scores of sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.scores import RowScores, log_losses

TOP = 5
SUMS = 5


class SparseScores:
    """Scores of rows of the k likeliest classes, added up chunk by chunk."""

    def __init__(self) -> None:
        self._sums = np.zeros(SUMS)

    def add_checked(self, rank: NDArray[np.float64], p: NDArray[np.float64]) -> RowScores:
        """Add rows; return the scores of each.

        Parameters
        ----------
        rank
            Number of listed classes that are likelier than the label, shape (n,); -1 where it is
            not listed.
        p
            Probability of the label, listed or not, shape (n,).
        """
        listed, losses = rank >= 0, log_losses(p)
        self._sums += [
            len(rank),
            float((rank == 0).sum()),
            float((listed & (rank < TOP)).sum()),
            float(listed.sum()),
            float(losses.sum()),
        ]
        return RowScores(rank.astype(np.intp), rank == 0, losses, p)

    def __add__(self, other: SparseScores) -> SparseScores:
        """The scores of the rows of both."""
        if not isinstance(other, SparseScores):
            return NotImplemented
        total = SparseScores()
        total._sums = self._sums + other._sums
        return total

    def sums(self) -> NDArray[np.float64]:
        """Rows, hits at 1 and at 5, rows that list the label, and log losses, shape (5,)."""
        return self._sums.copy()

    @classmethod
    def from_sums(cls, sums: NDArray[np.float64]) -> SparseScores:
        """Restore :meth:`sums`; ValueError where they are impossible."""
        if sums.dtype != np.float64 or sums.shape != (SUMS,):
            raise ValueError("scores")
        n, top1, top5, listed, loss = sums.tolist()
        if not 0 <= top1 <= top5 <= listed <= n < 2**53 or not 0 <= loss <= 14 * n:
            raise ValueError("scores")
        self = cls()
        self._sums = sums.copy()
        return self

    @property
    def n(self) -> int:
        """Rows added."""
        return int(self._sums[0])

    def _mean(self, k: int) -> float:
        return float(self._sums[k] / self._sums[0]) if self._sums[0] else float("nan")

    @property
    def accuracy(self) -> float:
        """Share of rows whose likeliest class is the label; nan before the first row."""
        return self._mean(1)

    @property
    def top5(self) -> float:
        """Share of rows with the label among the five likeliest."""
        return self._mean(2)

    @property
    def listed(self) -> float:
        """Share of rows that list the label."""
        return self._mean(3)

    @property
    def log_loss(self) -> float:
        """Mean of -log p of the label in nats, p no smaller than 1e-6; for an unlisted label p is
        its share of the rest."""
        return self._mean(4)

    def summary(self) -> dict[str, float | int]:
        """All scores by name."""
        return {
            "n": self.n, "accuracy": self.accuracy, "top5": self.top5, "listed": self.listed,
            "log_loss": self.log_loss,
        }  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"SparseScores({self.n} rows, accuracy {self.accuracy:.4f}, top 5 {self.top5:.4f},"
            f" log loss {self.log_loss:.4f})"
        )


def rank_of(classes: Sequence[Any], P: Sequence[float], label: Any) -> tuple[float, float] | None:
    """Number of classes in a row that are likelier than the label, or equal and before it, and its
    probability; None where the row does not list it."""
    if label not in classes:
        return None
    at = classes.index(label)
    p = P[at]
    return float(sum(q > p for q in P) + sum(q == p for q in P[:at])), p


def unlisted(P: Sequence[float], m: int) -> float:
    """Probability of a class that a row does not list, if all of these are alike."""
    return max(1 - sum(P), 0.0) / max(m - len(P), 1)
