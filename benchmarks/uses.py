"""Decisions by cost and expected accuracy on recorded streams.

    python benchmarks/uses.py FOLDER

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,). Labels come 100 rows
late, all of them, one in 20, one in 100 or none. Costs are those of predicting a class, 1 where it
is wrong, and of asking somebody, 0.2. Expected accuracy is that of 30 parts of each stream.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from recorded import recorded

from stream_can import Corrector, Costs
from stream_can.replay import Recording, replay

RATES = (1.0, 0.05, 0.01, 0.0)


def costs_of(m: int) -> Costs:
    wrong = {str(k): {str(k): 0, "*": 1} for k in range(m)}
    return Costs(m, wrong | {"ask": 0.2})


def played(path: Path, rate: float) -> Any:
    P, _, counts = recorded(path)
    m = P.shape[1]
    return replay(
        Recording(path, classes=list(range(m))), Corrector(m, train_counts=counts),
        label_delay=100, label_rate=rate, costs=costs_of(m), explain=False,
    )  # fmt: skip


def main(folder: Path) -> None:
    paths = sorted(folder.glob("*.npz"))
    print(f"{len(paths)} streams")
    for rate in RATES:
        saved, off, reach, inside = [], [], [], []
        for path in paths:
            result = played(path, rate)
            saved.append(1000 * result.cost_change.value)
            for part in result.expected.stretches(dates=False):
                value, low, high = part.expected
                off.append(abs(value - part.accuracy))
                reach.append((high - low) / 2)
                inside.append(low <= part.accuracy <= high)
        print(
            f"labels {rate:g}: cost of 1,000 rows {np.mean(saved):+.1f} (worst {max(saved):+.1f});"
            f" expected accuracy off by {100 * np.mean(off):.1f} points, interval"
            f" {100 * np.mean(reach):.1f} either way, holds {100 * np.mean(inside):.1f} %"
        )
    for m in (10, 100):
        P = np.random.default_rng(0).dirichlet(np.full(m, 0.2), 10_000)
        costs = costs_of(m)
        began = time.perf_counter()
        costs.named(P)
        print(f"deciding among {m + 1} actions: {100 * (time.perf_counter() - began):.1f} us a row")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
