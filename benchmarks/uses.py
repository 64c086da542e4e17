"""Decisions by cost, expected accuracy, and prediction sets by group on recorded streams.

    python benchmarks/uses.py FOLDER

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,). Labels come 100 rows
late, all of them, one in 20, one in 100 or none. Costs are those of predicting a class, 1 where it
is wrong, and of asking somebody, 0.2. Expected accuracy is that of 30 parts of each stream. Groups
of sets are the predicted classes; those with 100 labelled rows are compared, weighed by their rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from recorded import distinct, recorded

from stream_can import Corrector, Costs
from stream_can.replay import Recording, SetScores, from_arrays, replay, steps
from stream_can.replay.sets import ENOUGH
from stream_can.replay.steps import learner_of

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


def sets_by_group(paths: list[Path]) -> None:
    """Coverage of sets of all rows and by class: the worst group, and what groups lack."""
    for rate in (1.0, 0.05):
        for by in (None, "class"):
            worst, lacking, sizes, kept = [], [], [], []
            for path in paths:
                P, y, counts = distinct(path)
                m = P.shape[1]
                learner = learner_of(Corrector(m, train_counts=counts, sets=0.9, sets_by=by))
                sets = SetScores(0.9, by)
                chunks = from_arrays(P, y)
                for step in steps(chunks, learner, label_delay=100, label_rate=rate, explain=False):
                    sets.add(step, learner.classes)
                groups = [group for group in sets.groups if group.known >= ENOUGH]
                if not groups:
                    continue
                coverage = np.array([group.kept for group in groups])
                weights = np.array([group.known for group in groups])
                worst.append(coverage.min())
                lacking.append(np.average(np.maximum(0.9 - coverage, 0), weights=weights))
                sizes.append(sets.mean_size)
                kept.append(sets.kept)
            print(
                f"sets of {'all rows' if by is None else 'each predicted class'}, labels {rate:g}:"
                f" {len(worst)} streams, {100 * np.mean(kept):.1f} % kept; worst group"
                f" {100 * np.mean(worst):.1f} on average, {100 * min(worst):.1f} at the least;"
                f" groups lack {100 * np.mean(lacking):.2f} points; {np.mean(sizes):.2f} classes"
            )


def main(folder: Path) -> None:
    paths = sorted(folder.glob("*.npz"))
    print(f"{len(paths)} streams")
    sets_by_group(paths)
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


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
