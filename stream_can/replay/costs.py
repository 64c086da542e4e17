"""Costs in a replay: decisions on the rows as they came and as corrected, and what these cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Change, change
from stream_can.method.costs import Costs
from stream_can.replay.names import readable

Array = NDArray[np.float64]
PER = 1000
"""Rows that costs are given for."""
MOST_NAMED = 6
"""Actions whose shares are shown."""


class CostScores:
    """Costs of the labelled rows of a replay: each row gets the action that is the cheapest by its
    probabilities, and costs what that action costs for its label, times the label's weight.

    Parameters
    ----------
    costs
        Costs of the actions by class.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.rows = 0
        """Number of labelled rows."""
        self.sums: list[tuple[float, float, float]] = []
        """Weight of the labels of each step, and costs before and after."""
        self.decided = np.zeros((2, len(costs.actions)))
        """Weight of the rows by action, before and after."""
        self.always = np.zeros(len(costs.actions))
        """Cost of all rows, were each action always taken."""
        self.least = 0.0
        """Cost of all rows, were their labels known."""

    def add_rows(
        self, raw: Array, sent: Array, y: NDArray[np.int64], weights: Array | None = None
    ) -> None:
        """Add labelled rows of a step: as they came, as sent, their labels and the weights of
        these."""
        of_label = self.costs.matrix[:, y]
        if weights is not None:
            of_label = of_label * weights
        totals = [0.0, 0.0]
        for side, rows in enumerate((raw, sent)):
            action = self.costs.cheapest(rows)
            self.decided[side] += np.bincount(action, weights, len(self.always))
            totals[side] = float(of_label[action, np.arange(len(y))].sum())
        self.always += of_label.sum(axis=1)
        self.least += float(of_label.min(axis=0).sum()) if len(y) else 0.0
        self.rows += len(y)
        weight = len(y) if weights is None else float(weights.sum())
        self.sums.append((weight, totals[0], totals[1]))

    @property
    def weight(self) -> float:
        """Sum of the weights of the labels: without weights their number."""
        return sum(weight for weight, _, _ in self.sums)

    @property
    def change(self) -> Change | None:
        """Change of the mean cost of a row; None without labelled rows."""
        return change(*np.array(self.sums, np.float64).reshape(-1, 3).T)

    def best_always(self) -> tuple[str, float]:
        """The single action that would have cost least, and its mean cost."""
        k = int(self.always.argmin())
        return self.costs.actions[k], float(self.always[k]) / self.weight

    def to_dict(self, change: Change | None) -> dict[str, Any]:
        """The costs of 1,000 rows, as JSON."""
        if change is None:
            return {"rows": 0}
        error, n = PER * change.error, self.weight
        shares = (self.decided / n).tolist()
        return {
            "rows": self.rows,
            "per_rows": PER,
            "before": PER * change.before,
            "after": PER * change.after,
            "change": PER * change.value,
            "change_error": None if error != error else error,
            "with_labels_known": PER * self.least / n,
            "always": dict(zip(self.costs.actions, (PER * self.always / n).tolist(), strict=True)),
            "decided": {
                side: dict(zip(self.costs.actions, share, strict=True))
                for side, share in zip(("raw", "corrected"), shares, strict=True)
            },
        }


def costs_in_words(scores: CostScores | None, change: Change | None) -> list[str]:
    """One or two sentences; none without costs or labels."""
    if scores is None or change is None:
        return []
    saved = -PER * change.value
    error = "" if change.error != change.error else f" (standard error {_cost(PER * change.error)})"
    action, constant = scores.best_always()
    sentence = (
        f"By these costs {PER:,} rows cost {_cost(PER * change.before)} if decided before the"
        f" correction, and {_cost(PER * change.after)} after it: {_cost(abs(saved))}"
        f" {'less' if saved >= 0 else 'more'}{error}."
    )
    if constant <= change.after:
        sentence += (
            f" Always {readable(action, 40)} would cost {_cost(PER * constant)}, no more than that:"
            " the probabilities do not help to decide by these costs."
        )
    return [sentence]


def costs_facts(scores: CostScores, change: Change | None) -> list[tuple[str, str]]:
    """Names and numbers."""
    if change is None:
        return []
    n = scores.weight
    action, constant = scores.best_always()
    error = "" if change.error != change.error else f" ± {_cost(PER * change.error)}"
    facts = [
        (f"cost of {PER:,} rows, before", _cost(PER * change.before)),
        (f"cost of {PER:,} rows, after", _cost(PER * change.after)),
        ("change", _cost(PER * change.value, "+") + error),
        (f"always {readable(action, 40)}", _cost(PER * constant)),
        ("if the labels were known", _cost(PER * scores.least / n)),
    ]
    shares = 100 * scores.decided / n
    order = np.argsort(-shares.max(axis=0), kind="stable")[:MOST_NAMED]
    facts += [
        (f"decided: {readable(scores.costs.actions[k], 40)}",
         f"{shares[0, k]:.1f} % before, {shares[1, k]:.1f} % after")
        for k in order.tolist()
    ]  # fmt: skip
    return facts


def _cost(value: float, sign: str = "") -> str:
    """A cost with four digits or more."""
    if value != value:
        return "?"
    digits = max(0, 3 - int(np.floor(np.log10(abs(value))))) if value else 0
    return f"{value:{sign},.{min(digits, 6)}f}"
