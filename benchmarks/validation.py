"""What labels and `fit` gain on recorded streams, what `fit` costs, what its order changes.

    python benchmarks/validation.py FOLDER

FOLDER holds .npz files with probs (n, m), labels (n,), train_counts (m,) and, in some, val_probs
and val_labels; a file without them uses those of the file whose name is its own up to the last
underscore. Where a stream repeats rows, labels of one half of the distinct rows are learned and the
other half is scored. Each label comes with the receipt of its prediction.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from stream_can import Corrector
from stream_can.method import validation

HEAD, DELAY = 1000, 100
HALF = "of a random half of the classes"
LEAST_SURE = "of the least sure 10%"
WRONG = "of wrong predictions"


def load(file: Path) -> dict[str, np.ndarray] | None:
    with np.load(file) as z:
        data = dict(z)
    if "val_probs" not in data:
        source = file.with_name(file.stem.rsplit("_", 1)[0] + ".npz")
        if not source.exists():
            return None
        with np.load(source) as z:
            if "val_probs" not in z:
                return None
            data |= {"val_probs": z["val_probs"], "val_labels": z["val_labels"]}
    for name in ("probs", "val_probs"):
        P = data[name].astype(np.float64)
        data[name] = P / P.sum(1, keepdims=True)
    return data


def chosen(labels: str, P: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which labels come: a share at random, or as `labels` says."""
    if labels[0].isdigit():
        return np.random.default_rng(0).random(len(y)) < float(labels[:-1]) / 100
    if labels == HALF:
        half = np.random.default_rng(5).random(P.shape[1]) < 0.5
        return (half if half.any() and not half.all() else np.arange(P.shape[1]) == 0)[y]
    if labels == LEAST_SURE:
        top = P.max(axis=1)
        return top < np.quantile(top, 0.1)
    return P.argmax(axis=1) != y


def changes(
    data: dict[str, np.ndarray],
    *,
    fit: bool = False,
    labels: str = "100%",
    rows: int | None = None,
    delay: int = DELAY,
) -> tuple[float, float]:
    """Change in accuracy (points) and log loss over the first `rows` rows."""
    P, y = data["probs"], data["labels"].astype(np.int64)
    _, source = np.unique(P, axis=0, return_inverse=True)
    source = source.ravel()
    given, scored = chosen(labels, P, y), np.ones(len(y), bool)
    if source.max() + 1 < 0.95 * len(y):
        half = np.random.default_rng(7).random(source.max() + 1) < 0.5
        given, scored = given & half[source], ~half[source]
    n = min(len(P), rows or len(P))
    corrector = Corrector(P.shape[1], train_counts=data["train_counts"])
    if fit:
        corrector.fit(data["val_probs"], data["val_labels"].astype(np.int64))
    out, receipts = np.empty((n, P.shape[1])), deque[np.ndarray](maxlen=delay + 1)
    for t in range(n):
        out[t], receipt = corrector.process_one(P[t], receipt=True)
        receipts.append(receipt)
        if t >= delay and given[t - delay]:
            corrector.learn_one(P[t - delay], int(y[t - delay]), receipt=receipts[0])
    at, y = np.flatnonzero(scored[:n]), y[:n]
    hits = (out.argmax(1) == y)[at].mean() - (P[:n].argmax(1) == y)[at].mean()
    loss = [-np.log(np.maximum(Q[at, y[at]], 1e-6)).mean() for Q in (out, P)]
    return float(hits * 100), float(loss[0] - loss[1])


def summary(rows: list[tuple[float, float]]) -> str:
    a, loss = np.array(rows).T
    accuracy = f"{a.mean():+.2f} / {a.min():+.2f} / {np.median(a):+.2f}"
    return f"{accuracy} | {loss.mean():+.3f} / {loss.max():+.3f}"


def main(folder: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 100, 5000)
    P = np.exp(rng.normal(0, 1, (5000, 100)) + 3 * np.eye(100)[y])
    P /= P.sum(1, keepdims=True)
    seconds = []
    for n in (5000, 4999, 4999, 5000, 4999, 5000):  # 4999 rows climb the ladder
        start = time.perf_counter()
        Corrector(100).fit(P[:n], y[:n])
        seconds.append((n, time.perf_counter() - start))
    for n in (5000, 4999):
        t = [s for rows, s in seconds if rows == n]
        print(
            f"fit of {n} rows, m = 100: {min(t):.2f} / {sorted(t)[1]:.2f} / {max(t):.2f} s "
            "(min / median / max of 3)"
        )

    streams = [data for file in sorted(Path(folder).glob("*.npz")) if (data := load(file))]
    print(
        f"\n{len(streams)} streams, labels {DELAY} rows late: "
        "accuracy mean / worst / median | log loss mean / worst"
    )

    def show(what: str, **options: Any) -> None:
        print(f"| {what} | {summary([changes(d, **options) for d in streams])} |", flush=True)

    for labels in ("0%", "5%", "100%"):
        for fit in (False, True):
            with_fit = "fit" if fit else "without"
            show(f"first {HEAD} | {labels} | {with_fit}", labels=labels, fit=fit, rows=HEAD)
    for labels in ("0%", "1%", "5%", "20%", "100%"):
        for fit in (False, True):
            show(f"all | {labels} | {'fit' if fit else 'without'}", labels=labels, fit=fit)
    show("all | 100%, 1000 rows late | without", delay=1000)
    for labels in (HALF, LEAST_SURE, WRONG):
        for fit in (False, True):
            show(f"all | {labels} | {'fit' if fit else 'without'}", labels=labels, fit=fit)
    for seed in range(5):
        validation.SEED = seed
        show(f"all, passes ordered by seed {seed} | 0% | fit", labels="0%", fit=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
