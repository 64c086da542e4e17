"""What labels buy that are asked for, against as many at random, and how the budget is kept.

    python benchmarks/label_requests.py FOLDER [SEEDS]

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,). Where a stream repeats
rows, labels of one half of the distinct rows can be asked for and the other half is scored. Labels
come 100 rows late. The random labels are as many, in each stream, as were asked for there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from stream_can import Corrector, LabelRequests
from stream_can.method.asking import ROWS
from stream_can.recording.recording import from_arrays
from stream_can.replay import steps

BUDGETS, DELAY = (0.01, 0.05, 0.1), 100


class Counted(LabelRequests):
    """Remembers which rows it asked for, among those that it was shown."""

    def ask_many(self, ids, rows):
        said = super().ask_many(ids, rows)
        self.shown = [*getattr(self, "shown", []), *(one is not None for one in said)]
        return said


def load(file):
    with np.load(file) as z:
        P, y, counts = z["probs"].astype(float), z["labels"].astype(int), z["train_counts"]
    _, source = np.unique(P, axis=0, return_inverse=True)
    could = scored = np.ones(len(y), bool)
    if source.max() + 1 < 0.95 * len(y):
        half = np.random.default_rng(7).random(source.max() + 1) < 0.5
        could, scored = half[source.ravel()], ~half[source.ravel()]
    return P / P.sum(axis=1, keepdims=True), y, counts, could, scored


def points(data, given, requests=None):
    P, y, counts, _, scored = data
    chunks = [
        chunk._replace(arrives=given[chunk.first : chunk.first + len(chunk.P)])
        for chunk in from_arrays(P, y)
    ]
    corrector = Corrector(P.shape[1], train_counts=counts)
    parts = steps(chunks, corrector, label_delay=DELAY, requests=requests, explain=False)
    out = np.concatenate([step.corrected for step in parts])
    right = (out.argmax(axis=1) == y) * 1.0 - (P.argmax(axis=1) == y)
    return 100 * right[scored].mean()


def main():
    streams = [load(file) for file in sorted(Path(sys.argv[1]).glob("*.npz"))]
    seeds = range(int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    for budget in BUDGETS:
        asked, at_random, used, most = [], [], [], []
        for seed in seeds:
            for data in streams:
                could = data[3]
                requests = Counted(budget, seed=seed)
                asked.append(points(data, could, requests))
                shown = np.array(requests.shown)
                used.append(shown.mean() / budget)
                total = np.concatenate([[0], np.cumsum(shown)])
                most.append((total[ROWS:] - total[:-ROWS]).max() / ROWS / budget)
                rng = np.random.default_rng([seed, 1])
                drawn = rng.permutation(np.flatnonzero(could))[: shown.sum()]
                at_random.append(points(data, np.isin(np.arange(len(could)), drawn)))
        by_seed = np.reshape(asked, (len(seeds), -1)).mean(axis=1)
        print(
            f"{100 * budget:g} %: asked {np.mean(asked):+.2f} points (worst {min(asked):+.2f}, "
            f"seeds {by_seed.min():+.2f} to {by_seed.max():+.2f}), as many at random "
            f"{np.mean(at_random):+.2f} (worst {min(at_random):+.2f}); of the budget "
            f"{100 * np.mean(used):.0f} % spent, {100 * max(most):.0f} % in its fullest window",
            flush=True,
        )


if __name__ == "__main__":
    main()
