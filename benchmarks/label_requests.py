"""What requested labels gain, against as many at random, on recorded streams.

    python benchmarks/label_requests.py FOLDER

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,). Where a stream repeats
rows, labels of one half of the distinct rows can be requested and the other half is scored. Labels
come 100 rows late; random labels are drawn with three seeds. Change of accuracy in points, mean and
worst of a stream.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from recorded import halves, recorded

from stream_can import Corrector
from stream_can.recording import from_arrays
from stream_can.replay import steps
from stream_can.replay.steps import learner_of

BUDGETS, DELAY, SEEDS = (0.01, 0.05, 0.1), 100, 3


def play(path: Path, budget: float) -> tuple[float, float, float]:
    """Points with requests, with as many random labels, and the share of the budget used."""
    P, y, counts = recorded(path)
    may_learn, scored = halves(P)

    def points(given: Any, ask: float | None = None) -> tuple[float, int]:
        learner = learner_of(Corrector(P.shape[1], train_counts=counts), ask=ask)
        played = [*steps(from_arrays(P, np.where(given, y, -1)), learner, label_delay=DELAY)]
        sent = np.concatenate([step.corrected for step in played])
        change = (sent.argmax(1) == y) * 1.0 - (P.argmax(1) == y)
        requested = sum(reason is not None for step in played for reason in step.asked)
        return 100 * change[scored].mean(), requested

    asked, requested = points(may_learn, budget)
    at_random = []
    for seed in range(SEEDS):
        drawn = np.random.default_rng(seed).permutation(np.flatnonzero(may_learn))[:requested]
        at_random.append(points(np.isin(np.arange(len(y)), drawn))[0])
    return asked, float(np.mean(at_random)), requested / may_learn.sum() / budget


def main(folder: str) -> None:
    print("| budget | requested | worst stream | at random | worst stream | budget spent |")
    print("|--:|--:|--:|--:|--:|--:|")
    for budget in BUDGETS:
        rows = np.array([play(path, budget) for path in sorted(Path(folder).glob("*.npz"))])
        (asked, at_random, used), worst = rows.mean(axis=0), rows.min(axis=0)
        print(f"| {100 * budget:g} % | {asked:+.2f} | {worst[0]:+.2f} | {at_random:+.2f} |"
              f" {worst[1]:+.2f} | {100 * used:.0f} % |", flush=True)  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
