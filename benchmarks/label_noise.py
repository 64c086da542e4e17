"""What wrong labels cost, and what the setting ``label_noise`` gives back, on recorded streams.

    python benchmarks/label_noise.py FOLDER [--rate 1]

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,); of rows that occur
more than once the first is taken. Of the labels that the corrector is shown a share is wrong: any
class, or for each class a fixed other one. The rows are scored by the true ones. A cell is the mean
over the streams and the worst of them: points of accuracy against the raw rows / nats of log loss.
Then, for 0, 0.05 and 0.2: how many streams `stream-can replay --try-label-noise` names each for,
where all that it knows are the wrong labels, by its last log loss and by that of these labels.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from recorded import distinct

from stream_can import Corrector
from stream_can.replay import Recording
from stream_can.replay.noise import try_label_noise

DELAY = 100
CASES = [("clean", 0.0), *((kind, share) for kind in ("uniform", "fixed class")
                           for share in (0.1, 0.2, 0.3))]  # fmt: skip


def shown(y: Any, m: int, kind: str, share: float, rng: Any) -> Any:
    """The labels, of which a share is wrong."""
    wrong = rng.random(len(y)) < share
    if kind == "uniform":
        other = rng.integers(0, m, len(y))
    else:
        other = (y + rng.integers(1, m, m)[y]) % m if m > 1 else y
    return np.where(wrong, other, y)


def score(P: Any, y: Any) -> Any:
    """Accuracy in points, log loss in nats."""
    hits = 100 * (P.argmax(axis=1) == y).mean()
    return np.array([hits, -np.log(np.maximum(P[np.arange(len(y)), y], 1e-6)).mean()])


def gain(P: Any, y: Any, counts: Any, labels: Any, rate: float, noise: float) -> Any:
    corrector = Corrector(P.shape[1], train_counts=counts, label_noise=noise)
    given = np.random.default_rng(0).random(len(y)) < rate
    at = np.flatnonzero(given)
    due = np.minimum(at + DELAY, len(y))
    sent = corrector.play(P, labels[at], at, due, receipt=True).rows
    return score(sent, y) - score(P, y)


def named(P: Any, counts: Any, labels: Any, rate: float) -> tuple[float, float]:
    """The value with the lowest last log loss, and that with the lowest of the labels shown."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/stream.npz", probs=P, label=labels)
        tried = try_label_noise(
            Recording(f"{folder}/stream.npz"),
            lambda noise: Corrector(P.shape[1], train_counts=counts, label_noise=noise),
            [0, 0.05, 0.2], label_delay=DELAY, label_rate=rate,
        )  # fmt: skip
    return (
        min(tried, key=lambda one: one.expected.after).label_noise,
        min(tried, key=lambda one: one.log_loss.after).label_noise,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", type=float, default=1.0, help="share of the rows with a label")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of a stream, at most")
    given = parser.parse_args()
    streams = [distinct(path) for path in sorted(given.folder.glob("*.npz"))]
    print(f"{len(streams)} streams, labels {DELAY} late, share {given.rate:g}; mean, worst")
    print(f"{'labels':>20} {'label_noise':>12} {'points':>16} {'nats':>18}")
    for kind, share in CASES:
        for noise in sorted({0.0, share or 0.05}):
            found = []
            for P, y, counts in streams:
                P, y = P[: given.rows], y[: given.rows]
                labels = shown(y, P.shape[1], kind, share, np.random.default_rng(1))
                found.append(gain(P, y, counts, labels, given.rate, noise))
            points, nats = np.array(found).T
            print(
                f"{kind:>15} {share:4.0%} {noise:12g} {points.mean():+7.2f} {points.min():+8.2f}"
                f" {nats.mean():+8.3f} {nats.max():+9.3f}", flush=True,
            )  # fmt: skip
    for kind, share in CASES:
        if share in (0, 0.2):
            found = []
            for P, y, counts in streams:
                P, y = P[: given.rows], y[: given.rows]
                labels = shown(y, P.shape[1], kind, share, np.random.default_rng(1))
                found.append(named(P, counts, labels, given.rate))
            last, recorded = (
                dict(sorted(Counter(one).items())) for one in zip(*found, strict=True)
            )
            print(f"{kind:>15} {share:4.0%} named: {last}; by the labels shown: {recorded}")


if __name__ == "__main__":
    main()
