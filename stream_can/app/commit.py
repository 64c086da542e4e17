"""Commit: what one transaction adds to the counters."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from typing import NamedTuple

SIDES = ("before", "after")


class Commit(NamedTuple):
    """Counts of one transaction."""

    counts: Tally[str]
    """`Committed` of its sources, since the commit before."""
    scores: Mapping[str, float]
    outputs: int
    normalised: int
    faults: int
    requested: Tally[str]
    answered: int
    delays: list[float]
    """In seconds."""
    seconds: float
    snapshot_bytes: int

    def predictions(self) -> dict[str, float]:
        """Input records by result."""
        n = self.counts
        return {
            "corrected": n["corrected"],
            "tombstone": self.outputs - n["corrected"],
            "dead_letter": n["predictions"] - self.outputs,
        }

    def labels(self) -> dict[str, float]:
        """Label records by result."""
        n = self.counts
        dead = n["dead_letters"] - (n["predictions"] - self.outputs)
        return {
            "matched": n["matched"],
            "unmatched": n["unmatched"],
            "repeated": n["repeated"],
            "dead_letter": dead,
            "tombstone": n["labels"] - n["matched"] - n["unmatched"] - n["repeated"] - dead,
        }

    def sides(self, score: str) -> dict[str, float]:
        """A score before and after correction."""
        return {side: self.scores[f"{score}_{side}"] for side in SIDES}
