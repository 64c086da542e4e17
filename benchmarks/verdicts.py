"""How often is "Use it" said of streams that nothing can improve, and of those that a little can?

Simulated streams of 2 to 30 classes and 1,000 to 10,000 rows, whose labels are late, all or a fifth
of them. Of the first kind the classifier is calibrated and the class mix stands still: nothing is
to be gained. Of the second it is somewhat overconfident, and its class mix somewhat off.

    python benchmarks/verdicts.py [200]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_can import Corrector
from stream_can.replay import Recording, judge, replay


def stream(rng: np.random.Generator, gain: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Predictions and labels."""
    m, n = int(rng.choice([2, 3, 5, 10, 30])), int(rng.choice([1000, 3000, 10_000]))
    mix = rng.dirichlet(np.full(m, 3.0))
    P = np.maximum(rng.dirichlet(mix * m * rng.choice([0.2, 0.5, 1.0]), size=n), 1e-9)
    P /= P.sum(axis=1, keepdims=True)
    y = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, m - 1)
    if gain:
        P = P ** rng.uniform(1.1, 1.35) * np.exp(0.25 * rng.normal(size=m))
        P /= P.sum(axis=1, keepdims=True)
    return P, y


def main(count: int) -> None:
    for gain in (False, True):
        said = Counter[str]()
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(count):
                rng = np.random.default_rng([int(gain), seed])
                P, y = stream(rng, gain)
                names = [f"c{k}" for k in range(P.shape[1])]
                file = Path(folder, "stream.npz")
                np.savez(file, probs=P, label=np.array(names)[y])
                result = replay(
                    Recording(file, classes=names),
                    Corrector(names),
                    label_delay=int(rng.choice([0, 100, 500])),
                    label_rate=float(rng.choice([1.0, 0.2])),
                    seed=seed,
                )
                said[judge(result).use.split(":")[0].split(",")[0]] += 1
        print(f"{count} streams, {'a small gain' if gain else 'no gain'} to be had:")
        for text, n in said.most_common():
            print(f"  {n:4} {text}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
