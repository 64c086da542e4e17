"""What `fit` costs, what the order of its passes changes, what it gains on the first rows.

    python benchmarks/validation.py FOLDER

FOLDER holds .npz files with probs (n, m), labels (n,), train_counts (m,) and, in some, val_probs
and val_labels; a file without them uses those of the file whose name is its own up to the last
underscore. Where a stream repeats rows, labels of one half of the distinct rows are learned and the
other half is scored.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from stream_can import Corrector
from stream_can.method import validation

HEAD, DELAY = 1000, 100


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


def changes(
    data: dict[str, np.ndarray], *, fit: bool, rate: float, rows: int | None
) -> tuple[float, float]:
    """Change in accuracy (points) and log loss over the first `rows` rows."""
    P, y = data["probs"], data["labels"].astype(np.int64)
    _, source = np.unique(P, axis=0, return_inverse=True)
    source = source.ravel()
    given, scored = np.random.default_rng(0).random(len(y)) < rate, np.ones(len(y), bool)
    if source.max() + 1 < 0.95 * len(y):
        half = np.random.default_rng(7).random(source.max() + 1) < 0.5
        given, scored = given & half[source], ~half[source]
    n = min(len(P), rows or len(P))
    corrector = Corrector(P.shape[1], train_counts=data["train_counts"])
    if fit:
        corrector.fit(data["val_probs"], data["val_labels"].astype(np.int64))
    out = np.empty((n, P.shape[1]))
    for t in range(n):
        out[t] = corrector.process_one(P[t])
        if t >= DELAY and given[t - DELAY]:
            corrector.learn_one(P[t - DELAY], int(y[t - DELAY]))
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
    for rate in (0.0, 0.05, 1.0):
        for fit in (False, True):
            rows = [changes(data, fit=fit, rate=rate, rows=HEAD) for data in streams]
            print(
                f"| first {HEAD} rows | {rate:.0%} of labels | {'fit' if fit else 'without'} "
                f"| {summary(rows)} |",
                flush=True,
            )
    for seed in range(5):
        validation.SEED = seed
        rows = [changes(data, fit=True, rate=0.0, rows=None) for data in streams]
        print(
            f"| all rows, passes ordered by seed {seed} | 0% of labels | fit | {summary(rows)} |",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
