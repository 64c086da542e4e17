"""Prediction sets on recorded streams, beside split conformal prediction fitted again and again.

    python benchmarks/prediction_sets.py FOLDER [--miss 0.1]

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,); of rows that occur
more than once the first is taken. Rows are corrected and their labels come 100 or 1,000 rows later,
all of them or one in 20. Coverage is that of sets as they are sent, the likeliest class always in
them. "window" is how far the worst 500 rows in a row are from what was promised, in points; "cost"
what `set_many` takes of the time of `process_many`, row by row. "judged when the label comes" is
how scikit-learn, river and Spark teach sets, since they keep no tickets.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from recorded import distinct

from stream_can import Corrector
from stream_can.trust.sets import PredictionSets

BATCH, WINDOW, AGAIN = 20, 500, 500
CASES = [("every label, 100 late", 100, 1.0), ("1 in 20, 100 late", 100, 0.05),
         ("every label, 1,000 late", 1000, 1.0)]  # fmt: skip


class Split:
    """Split conformal prediction on the same scores: fitted to 20 labels, to twice as many, and so
    on until they are so many; then again every so many."""

    def __init__(self, m: int, miss: float, again: float) -> None:
        self.miss, self.again, self.scores = miss, again, []
        self.theta, self.due = math.inf, 20.0

    def set_many(self, rows: Any) -> tuple[Any, list[None]]:
        with np.errstate(divide="ignore"):
            inside = np.log1p(-rows) - np.log(rows) <= self.theta
        inside[np.arange(len(rows)), rows.argmax(axis=1)] = True
        return inside, [None] * len(rows)

    def learn_many(self, rows: Any, labels: list[int], tickets: Any) -> None:
        p = rows[np.arange(len(rows)), labels].clip(1e-12, 1 - 1e-12)
        self.scores += (np.log1p(-p) - np.log(p)).tolist()
        if len(self.scores) >= self.due:
            n = len(self.scores)
            at = min(math.ceil((n + 1) * (1 - self.miss)), n) - 1
            self.theta, self.due = sorted(self.scores)[at], n + min(n, self.again)


class WithoutTickets:
    """Each label judges the set that would be sent when it is learned; rows count by then."""

    def __init__(self, m: int, miss: float) -> None:
        self.sets, self.miss = PredictionSets(m, miss), miss

    def set_many(self, rows: Any) -> tuple[Any, list[None]]:
        return copy.copy(self.sets).set_many(rows)[0], [None] * len(rows)

    def learn_many(self, rows: Any, labels: list[int], tickets: Any) -> None:
        for row, label in zip(rows, labels, strict=True):
            self.sets.learn_one(row, label, self.sets.set_one(row)[1])


def play(sets: Any, rows: Any, y: Any, given: Any, delay: int) -> tuple[float, float, float]:
    """Coverage, the worst window's distance and the mean size."""
    n, tickets, learned = len(rows), [], 0
    covered, size = np.empty(n, bool), np.empty(n)
    for start in range(0, n, BATCH):
        stop = min(n, start + BATCH)
        inside, made = sets.set_many(rows[start:stop])
        tickets += made
        covered[start:stop] = inside[np.arange(stop - start), y[start:stop]]
        size[start:stop] = inside.sum(axis=1)
        due = max(stop - delay, learned)
        at = np.flatnonzero(given[learned:due]) + learned
        if len(at):
            sets.learn_many(rows[at], y[at].tolist(), [tickets[i] for i in at])
        learned = due
    windows = covered[: n // WINDOW * WINDOW].reshape(-1, WINDOW).mean(axis=1)
    return covered.mean(), np.abs(windows - (1 - sets.miss)).max(), size.mean()


def corrected(P: Any, y: Any, counts: Any, given: Any, delay: int) -> Any:
    corrector, out, kept, learned = Corrector(P.shape[1], train_counts=counts), [], [], 0
    for start in range(0, len(P), BATCH):
        rows, receipts = corrector.process_many(P[start : start + BATCH], receipt=True)
        out.append(rows)
        kept.append(receipts)
        due = max(start + BATCH - delay, learned)
        at = np.flatnonzero(given[learned:due]) + learned
        if len(at):
            known = np.concatenate(kept)[at] if len(kept) > 1 else kept[0][at]
            corrector.learn_many(P[at], y[at], receipts=known)
        learned = due
        if len(kept) > 1:
            kept = [np.concatenate(kept)]
    return np.concatenate(out)


def cost(m: int) -> float:
    """Of `set_many`, in times of `process_many`, processor time of 5,000 rows."""
    P = np.random.default_rng(m).dirichlet(np.full(m, 0.3), 5000)
    spent = []
    for call in (Corrector(m).process_many, PredictionSets(m).set_many):
        call(P)
        begin = time.process_time()
        call(P)
        spent.append(time.process_time() - begin)
    return spent[1] / spent[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--miss", type=float, default=0.1)
    options = parser.parse_args()
    miss = options.miss
    kinds = {
        "prediction sets": lambda m: PredictionSets(m, miss),
        "prediction sets, per class": lambda m: PredictionSets(m, miss, per_class=True),
        "prediction sets, judged when the label comes": lambda m: WithoutTickets(m, miss),
        "split conformal, fitted every 500": lambda m: Split(m, miss, AGAIN),
    }
    streams = [distinct(path) for path in sorted(options.folder.glob("*.npz"))]
    print("| labels | | coverage, % | mean distance | window: mean / worst | size |")
    print("|---|---|--:|--:|--:|--:|")
    for case, delay, rate in CASES:
        rng = np.random.default_rng(0)
        givens = [rng.random(len(y)) < rate for _, y, _ in streams]
        rows = [corrected(P, y, c, g, delay)
                for (P, y, c), g in zip(streams, givens, strict=True)]  # fmt: skip
        for name, make in kinds.items():
            found = np.array([
                play(make(P.shape[1]), sent, y, given, delay)
                for (P, y, _), sent, given in zip(streams, rows, givens, strict=True)
            ])  # fmt: skip
            share, window, size = 100 * found[:, 0], 100 * found[:, 1], found[:, 2]
            print(
                f"| {case} | {name} | {share.min():.1f} to {share.max():.1f}"
                f" | {np.abs(share - 100 * (1 - miss)).mean():.2f}"
                f" | {window.mean():.1f} / {window.max():.1f} | {size.mean():.2f} |"
            )
    for m in (10, 100, 1000):
        costs = sorted(cost(m) for _ in range(5))
        print(f"cost at m = {m}: {costs[0]:.2f} / {costs[2]:.2f} / {costs[4]:.2f}")


if __name__ == "__main__":
    main()
