"""What a frozen corrector, as one in ONNX, keeps of the gain, on recorded streams.

    python benchmarks/frozen.py FOLDER

FOLDER is that of `validation.py`. Labels are 100 rows late. The first half of each stream is
learned; the second is corrected by the state of then, as `to_onnx` exports it, or goes on learning.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from recorded import halves, recorded

from stream_can import Corrector

DELAY = 100


def scores(path: Path) -> list[tuple[float, float]]:
    """Accuracy in percent and log loss of the second half as it came, frozen and learning."""
    P, y, counts = recorded(path)
    may_learn, scored = halves(P)
    n = len(y) // 2
    rows = np.flatnonzero(may_learn)
    due = np.minimum(rows + DELAY + 1, len(y))
    learning = Corrector(P.shape[1], train_counts=counts)
    sent = learning.play(P, y[rows], rows, due, receipt=True).rows
    frozen = Corrector(P.shape[1], train_counts=counts)
    early = due <= n
    frozen.play(P[:n], y[rows[early]], rows[early], due[early], receipt=True)
    at = np.flatnonzero(scored[n:]) + n
    ways = P[at], frozen.correct_many(P[at]), sent[at]
    given = [np.maximum(Q[np.arange(len(at)), y[at]], 1e-6) for Q in ways]
    return [(100 * (Q.argmax(1) == y[at]).mean(), -np.log(p).mean())
            for Q, p in zip(ways, given, strict=True)]  # fmt: skip


def main(folder: str) -> None:
    found = np.array([scores(path) for path in sorted(Path(folder).glob("*.npz"))])
    for i, name in enumerate(("as it came", "frozen, in ONNX", "learning")):
        print(f"| {name} | {found[:, i, 0].mean():.2f} | {found[:, i, 1].mean():.3f} |")
    change = found[:, 1] - found[:, 0]
    lost = np.argmax(found[:, 2, 0] - found[:, 1, 0])
    print(f"frozen, worst stream: {change[:, 0].min():+.2f} points, {change[:, 1].max():+.3f} nats;"
          f" most lost: {found[lost, 1, 0]:.2f} against {found[lost, 2, 0]:.2f} %")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
