"""Prediction sets on recorded streams, beside split conformal prediction fitted again and again.

    python benchmarks/prediction_sets.py FOLDER [--sets 0.9]

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,); of rows that occur
more than once the first is taken. Rows are corrected and their labels come 100 or 1,000 rows later,
all of them or one in 20. Coverage is that of sets as they are sent, the likeliest class always in
them. "window" is how far the worst 500 rows in a row are from what was promised, in points.
"judged when the label comes" is how scikit-learn, river and Spark teach sets where they keep no
receipts.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from recorded import distinct

from stream_can import Corrector
from stream_can.method.receipts import TAIL

BATCH, WINDOW, AGAIN = 20, 500, 500
LATE = "prediction sets, judged when the label comes"
SPLIT = "split conformal, fitted every 500"
CASES = [("every label, 100 late", 100, 1.0), ("1 in 20, 100 late", 100, 0.05),
         ("every label, 1,000 late", 1000, 1.0)]  # fmt: skip


class Split:
    """Split conformal prediction on the same scores: fitted to 20 labels, to twice as many, and so
    on until they are so many; then again every so many."""

    def __init__(self, m: int, miss: float, again: float) -> None:
        self.miss, self.again, self.scores = miss, again, []
        self.theta, self.due = math.inf, 20.0

    def set_many(self, rows: Any) -> Any:
        with np.errstate(divide="ignore"):
            inside = np.log1p(-rows) - np.log(rows) <= self.theta
        inside[np.arange(len(rows)), rows.argmax(axis=1)] = True
        return inside

    def learn_many(self, rows: Any, labels: list[int]) -> None:
        p = rows[np.arange(len(rows)), labels].clip(1e-12, 1 - 1e-12)
        self.scores += (np.log1p(-p) - np.log(p)).tolist()
        if len(self.scores) >= self.due:
            n = len(self.scores)
            at = min(math.ceil((n + 1) * (1 - self.miss)), n) - 1
            self.theta, self.due = sorted(self.scores)[at], n + min(n, self.again)


def play(
    P: Any, y: Any, counts: Any, given: Any, delay: int, kept: float, how: str
) -> tuple[float, float, float]:
    """Coverage, the worst window's distance and the mean size."""
    n, m = P.shape
    corrector = Corrector(m, train_counts=counts, sets=kept)
    split = Split(m, 1 - kept, AGAIN) if how == SPLIT else None
    sent, receipts, learned = np.empty((n, m)), [], 0
    covered, size = np.empty(n, bool), np.empty(n)
    for start in range(0, n, BATCH):
        stop = min(n, start + BATCH)
        rows, made = corrector.process_many(P[start:stop], receipt=True)
        inside = corrector.sets_of(rows, made) if split is None else split.set_many(rows)
        sent[start:stop] = rows
        if how == LATE:
            made[:, -m - TAIL :] = np.nan
        receipts.extend(made)
        covered[start:stop] = inside[np.arange(stop - start), y[start:stop]]
        size[start:stop] = inside.sum(axis=1)
        due = max(stop - delay, learned)
        at = np.flatnonzero(given[learned:due]) + learned
        if len(at):
            corrector.learn_many(P[at], y[at], receipts=np.array([receipts[i] for i in at]))
            if split is not None:
                split.learn_many(sent[at], y[at].tolist())
        for i in range(learned, due):
            receipts[i] = None
        learned = due
    windows = covered[: n // WINDOW * WINDOW].reshape(-1, WINDOW).mean(axis=1)
    return covered.mean(), np.abs(windows - kept).max(), size.mean()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=float, default=0.9)
    options = parser.parse_args()
    kept = options.sets
    streams = [distinct(path) for path in sorted(options.folder.glob("*.npz"))]
    print("| labels | | coverage, % | mean distance | window: mean / worst | size |")
    print("|---|---|--:|--:|--:|--:|")
    for case, delay, rate in CASES:
        rng = np.random.default_rng(0)
        givens = [rng.random(len(y)) < rate for _, y, _ in streams]
        for name in ("prediction sets", LATE, SPLIT):
            found = np.array([
                play(P, y, counts, given, delay, kept, name)
                for (P, y, counts), given in zip(streams, givens, strict=True)
            ])  # fmt: skip
            share, window, size = 100 * found[:, 0], 100 * found[:, 1], found[:, 2]
            print(
                f"| {case} | {name} | {share.min():.1f} to {share.max():.1f}"
                f" | {np.abs(share - 100 * kept).mean():.2f}"
                f" | {window.mean():.1f} / {window.max():.1f} | {size.mean():.2f} |"
            )


if __name__ == "__main__":
    main()
