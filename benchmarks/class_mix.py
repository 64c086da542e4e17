"""What `fit` gains without labels where the class mix moves, row by row and in batches.

    python benchmarks/class_mix.py FOLDER [--seeds 3]

FOLDER is that of `validation.py`; files whose rows repeat are left out, since their mix moves
already. From each, 12,000 rows are drawn by class, so that the mix goes from uniform to 0.9 on one
class and back: monotone (once), square and sinusoid (with a period of about sqrt(12,000) rows) and
at random (it changes at each row with probability 1/sqrt(12,000)), the shapes of the literature on
online label shift. A row is drawn again only when its class is used up. In batches the state stands
still, as in a Kafka worker between two commits. Figures are the share of wrong rows in percent,
means over the seeds (minimum to maximum).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from validation import load

from stream_can import Corrector

ROWS = 12_000
PERIOD = int(ROWS**0.5)
SHAPES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "monotone": lambda t, rng: t / (ROWS - 1),
    "square": lambda t, rng: t // PERIOD % 2,
    "sinusoid": lambda t, rng: 0.5 - 0.5 * np.cos(2 * np.pi * t / PERIOD),
    "at random": lambda t, rng: np.cumsum(rng.random(len(t)) < 1 / PERIOD) % 2,
}
"""How far the mix is from uniform, 0 to 1, at each row."""
BATCHES = (1, 10, 50, 100, 200)


def drawn(y: np.ndarray, m: int, shape: str, seed: int) -> np.ndarray:
    """Which rows of a stream with labels y come, shape (ROWS,)."""
    rng = np.random.default_rng([seed, list(SHAPES).index(shape)])
    far = SHAPES[shape](np.arange(ROWS), rng)[:, None]
    one = 0.1 / m + 0.9 * (np.arange(m) == rng.integers(m))
    mix = (1 - far) / m + far * one
    wanted = (rng.random(ROWS)[:, None] > mix.cumsum(axis=1)).sum(axis=1).clip(0, m - 1)
    rows = np.empty(ROWS, np.int64)
    for k in np.unique(wanted):
        at, of = np.flatnonzero(wanted == k), np.flatnonzero(y == k)
        again = [rng.permutation(of) for _ in range(-(-len(at) // len(of)))]
        rows[at] = np.concatenate(again)[: len(at)]
    return rows


def in_batches(corrector: Corrector, P: np.ndarray, size: int) -> np.ndarray:
    """What is sent where the state stands still for so many rows."""
    if size == 1:
        return corrector.process_many(P)
    out = np.empty_like(P)
    for start in range(0, len(P), size):
        sums = corrector.new_sums()
        out[start : start + size] = corrector.correct_and_sum(P[start : start + size], sums)
        corrector.add_sums(sums)
    return out


def wrong(P: np.ndarray, y: np.ndarray) -> float:
    return 100 * float((P.argmax(axis=1) != y).mean())


def cell(numbers: list[float]) -> str:
    return f"{np.mean(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print("| stream | mix | raw | " + " | ".join(f"batches of {size}" for size in BATCHES) + " |")
    print("|---" * (3 + len(BATCHES)) + "|")
    for file in sorted(given.folder.glob("*.npz")):
        data = load(file)
        if data is None or len(np.unique(data["probs"], axis=0)) < 0.95 * len(data["probs"]):
            continue
        P, y = data["probs"], data["labels"].astype(np.int64)
        m = P.shape[1]
        if (np.bincount(y, minlength=m) < 100).any():
            continue  # a row would come too often
        fitted = Corrector(m, train_counts=data["train_counts"])
        fitted.fit(data["val_probs"], data["val_labels"].astype(np.int64))
        saved = fitted.to_bytes()
        for shape in SHAPES:
            found: list[list[float]] = [[] for _ in range(1 + len(BATCHES))]
            for seed in range(given.seeds):
                rows = drawn(y, m, shape, seed)
                found[0].append(wrong(P[rows], y[rows]))
                for into, size in zip(found[1:], BATCHES, strict=True):
                    sent = in_batches(Corrector.from_bytes(saved), P[rows], size)
                    into.append(wrong(sent, y[rows]))
            print(f"| {file.stem} | {shape} | " + " | ".join(map(cell, found)) + " |", flush=True)


if __name__ == "__main__":
    main()
