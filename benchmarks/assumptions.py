"""What breaks the assumptions of the method, on recorded streams.

    python benchmarks/assumptions.py FOLDER

FOLDER is that of `validation.py`. Labels that are no fair sample, late or wrong; rows that change
after `fit`; labels of one half of each cycle alone. Labels are 100 rows late, if nothing else is
said. Each cell: change of accuracy in points, mean / worst, and of log loss in nats, mean / worst.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from validation import Played, load, play

from stream_can import Corrector

CYCLE, WRONG = 1600, 0.2
"""Rows of a cycle, of which the first half has labels; share of the labels that are wrong."""
Stream = dict[str, np.ndarray]


def corrector(stream: Stream, fit: bool, **settings: Any) -> Corrector:
    counts = stream["train_counts"]
    new = Corrector(len(counts), train_counts=counts, **settings)
    if fit:
        new.fit(stream["val_probs"], stream["val_labels"].astype(np.int64))
    return new


def cell(played: Iterable[Played]) -> str:
    changes = [(100 * stream.hits.mean(), stream.losses.mean()) for stream in played]
    points, nats = np.array(changes).T
    return f"{points.mean():+.2f} / {points.min():+.2f}, {nats.mean():+.3f} / {nats.max():+.3f}"


def show(what: str, *cells: str) -> None:
    print(f"| {what} | " + " | ".join(cells) + " |", flush=True)


def selected(P: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Which labels come."""
    half = np.random.default_rng(5).random(P.shape[1]) < 0.5
    half = half if half.any() and not half.all() else np.arange(P.shape[1]) == 0
    top, best = P.max(axis=1), P.argmax(axis=1)
    return {
        "of all but the commonest class": y != np.bincount(y).argmax(),
        "of rows predicted as one of a half of the classes": half[best],
        "of the surer half": top >= np.median(top),
        "of right predictions only": best == y,
    }


def wrong(y: np.ndarray, m: int, kind: str) -> np.ndarray:
    """Labels of which a share is drawn from all classes, or calls each class a fixed other one."""
    rng = np.random.default_rng(1)
    is_wrong = rng.random(len(y)) < WRONG
    other = rng.integers(m, size=len(y)) if kind == "any class" else (y + rng.integers(1, m, m)[y])
    return np.where(is_wrong, other % m, y)


def changed(P: np.ndarray, how: str) -> np.ndarray:
    """Rows of a classifier that is less or more sure than before, or prefers a class."""
    P = P * np.where(np.arange(P.shape[1]) == 0, 3, 1) if how == "odds" else P ** float(how)
    return P / P.sum(axis=1, keepdims=True)


def cycles(seed: int, m: int = 10, n: int = 20_000) -> tuple[Stream, np.ndarray]:
    """A calibrated classifier; the class mix turns to its opposite every half of a cycle."""
    rng = np.random.default_rng(seed)
    mix, rows = np.sort(rng.dirichlet(np.full(m, 0.5))), np.arange(n + 2000)
    day = rows % CYCLE < CYCLE // 2
    y = np.where(day, rng.choice(m, len(rows), p=mix), rng.choice(m, len(rows), p=mix[::-1]))
    P = np.exp(1.2 * (rng.normal(size=(len(rows), m)) + 1.2 * np.eye(m)[y]))
    P /= P.sum(axis=1, keepdims=True)
    stream = {"probs": P[:n], "labels": y[:n], "val_probs": P[n:], "val_labels": y[n:]}
    return stream | {"train_counts": np.full(m, 100)}, day[:n]


def main(folder: str) -> None:
    streams = [data for file in sorted(Path(folder).glob("*.npz")) if (data := load(file))]
    labels = [data["labels"].astype(np.int64) for data in streams]
    both = [*zip(streams, labels, strict=True)]
    ways = False, True
    show("labels", "without `fit`", "with `fit`")
    masks = [selected(data["probs"], y) for data, y in both]
    for name in masks[0]:
        pairs = [*zip(streams, masks, strict=True)]
        show(name, *(cell(play(s, fit=fit, given=mask[name]) for s, mask in pairs) for fit in ways))
    for delay in (1000, 3000):
        name = f"every one, {delay} rows late"
        show(name, *(cell(play(s, fit=fit, delay=delay) for s in streams) for fit in ways))
    for kind in ("any class", "a fixed other class"):
        for noise in (0.0, WRONG):
            cells = []
            for fit in ways:
                cells.append(cell(
                    play(s, corrector=corrector(s, fit, label_noise=noise),
                         shown=wrong(y, s["probs"].shape[1], kind)) for s, y in both
                ))  # fmt: skip
            show(f"every one, {WRONG:.0%} {kind}, `label_noise={noise:g}`", *cells)
    made = [cycles(seed) for seed in range(10)]
    name = "every one of half of each cycle, simulated"
    show(name, *(cell(play(s, fit=fit, given=day) for s, day in made) for fit in ways))
    print()
    show("rows become, with `fit`", "no label", "1 in 20", "every label")
    for how in ("1", "0.6", "0.8", "1.5", "odds"):
        later = [s | {"probs": changed(s["probs"], how)} for s in streams]
        name = "odds of the first class x 3" if how == "odds" else f"p^{how}"
        show(name, *(cell(play(s, fit=True, labels=share) for s in later)
                     for share in ("0%", "5%", "100%")))  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
