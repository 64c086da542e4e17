"""What labels and `fit` gain on recorded streams, what `fit` costs, what its order changes.

    python benchmarks/validation.py FOLDER
    python benchmarks/validation.py FOLDER --stretches    # the worst 500 and 2,000 rows of each
    python benchmarks/validation.py FOLDER --jumps        # class mixes that jump far

FOLDER holds .npz files with probs (n, m), labels (n,), train_counts (m,) and, in some, val_probs
and val_labels; a file without them uses those of the file whose name is its own up to the last
underscore. Where a stream repeats rows, labels of one half of the distinct rows are learned and the
other half is scored. Each label comes with the receipt of its prediction.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stream_can import Corrector
from stream_can.method import validation
from stream_can.recording import from_arrays
from stream_can.replay import steps

HEAD, DELAY = 1000, 100
STRETCHES = (500, 2000)
HALF = "of a random half of the classes"
LEAST_SURE = "of the least sure 10%"
WRONG = "of wrong predictions"
WAYS: list[tuple[str, dict[str, Any]]] = [  # options of `play`
    ("every label", {}),
    ("1 in 20", {"labels": "5%"}),
    ("1,000 late", {"delay": 1000}),
    ("`fit`, no label", {"fit": True, "labels": "0%"}),
    ("`fit`, every label", {"fit": True}),
]


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


class Played(NamedTuple):
    """Rows as they came, as they were sent, and their labels, without those that are not scored."""

    came: np.ndarray
    sent: np.ndarray
    y: np.ndarray

    @property
    def hits(self) -> np.ndarray:
        """The change of each row: 1 if it became right, -1 if it became wrong."""
        right = [(P.argmax(1) == self.y).astype(int) for P in (self.sent, self.came)]
        return right[0] - right[1]

    @property
    def losses(self) -> np.ndarray:
        """The change of each row's log loss."""
        at = np.arange(len(self.y)), self.y
        given = [np.log(np.maximum(P[at], 1e-6)) for P in (self.came, self.sent)]
        return given[0] - given[1]


def play(
    data: dict[str, np.ndarray],
    *,
    fit: bool = False,
    labels: str = "100%",
    rows: int | None = None,
    delay: int = DELAY,
    corrector: Corrector | None = None,
    given: np.ndarray | None = None,
    shown: np.ndarray | None = None,
) -> Played:
    """Play the first `rows` rows of a stream; corrector, which labels come, and the labels that
    are learned, may be given."""
    P, y = data["probs"], data["labels"].astype(np.int64)
    _, source = np.unique(P, axis=0, return_inverse=True)
    source = source.ravel()
    given = chosen(labels, P, y) if given is None else given
    scored = np.ones(len(y), bool)
    if source.max() + 1 < 0.95 * len(y):
        half = np.random.default_rng(7).random(source.max() + 1) < 0.5
        given, scored = given & half[source], ~half[source]
    n = min(len(P), rows or len(P))
    if corrector is None:
        corrector = Corrector(P.shape[1], train_counts=data["train_counts"])
        if fit:
            corrector.fit(data["val_probs"], data["val_labels"].astype(np.int64))
    chunks = from_arrays(P[:n], np.where(given, y if shown is None else shown, -1)[:n])
    played = steps(chunks, corrector, label_delay=delay, explain=False)
    sent = np.concatenate([step.corrected for step in played])
    at = np.flatnonzero(scored[:n])
    return Played(P[at], sent[at], y[at])


def changes(data: dict[str, np.ndarray], **options: Any) -> tuple[float, float]:
    """Change in accuracy (points) and log loss of a stream, see :func:`play`."""
    played = play(data, **options)
    return 100 * float(played.hits.mean()), float(played.losses.mean())


def worst(changed: np.ndarray, n: int) -> float:
    """The least mean of n rows in a row; of all, where they are fewer."""
    total = np.append(0.0, np.cumsum(changed))
    n = min(n, len(changed))
    return float((total[n:] - total[:-n]).min() / n)


def stretches(folder: str) -> None:
    """The worst 500 / 2,000 scored rows in a row of each stream against the rows as they came, in
    points and, of a stretch of its own, in nats."""
    print("| stream | " + " | ".join(way for way, _ in WAYS) + " |")
    print("|---" * (1 + len(WAYS)) + "|")
    for file in sorted(Path(folder).glob("*.npz")):
        if not (data := load(file)):
            continue
        cells = []
        for _, options in WAYS:
            played = play(data, **options)
            points = " / ".join(f"{100 * worst(played.hits, n):+.1f}" for n in STRETCHES)
            nats = " / ".join(f"{-worst(-played.losses, n):+.3f}" for n in STRETCHES)
            cells.append(f"{points}, {nats}")
        print(f"| {file.stem} | " + " | ".join(cells) + " |", flush=True)


def jump(data: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """A stream as long as this one, of its rows drawn again: each half has a class mix of its own,
    drawn from a Dirichlet distribution of 0.3."""
    rng = np.random.default_rng(seed)
    y, m = data["labels"], data["probs"].shape[1]
    drawn = []
    for n in (len(y) // 2, len(y) - len(y) // 2):
        mix = rng.dirichlet(np.full(m, 0.3))[y] / np.bincount(y, minlength=m)[y]
        drawn.append(rng.choice(len(y), n, p=mix / mix.sum()))
    at = np.concatenate(drawn)
    return data | {"probs": data["probs"][at], "labels": y[at]}


def jumps(folder: str, seeds: int = 4) -> None:
    """All rows, and the worst 500 scored rows in a row, of streams whose class mix jumps."""
    named = {file.stem: data for file in sorted(Path(folder).glob("*.npz")) if (data := load(file))}
    still = [data for name, data in named.items() if not name.endswith(("_drift", "_jump"))]
    made = [jump(data, seed) for data in still for seed in range(seeds)]
    print(
        f"{len(made)} jumps of {len(still)} streams\n\n| labels | accuracy (points) mean / worst "
        "| log loss mean / worst | worst 500, points mean / worst | worst 500, nats mean / worst |"
    )
    print("|---" * 5 + "|")
    for way, options in WAYS:
        of_all, of_worst = [], []
        for data in made:
            played = play(data, **options)
            of_all.append((100 * played.hits.mean(), played.losses.mean()))
            of_worst.append((100 * worst(played.hits, 500), -worst(-played.losses, 500)))
        cells = []
        for points, nats in (np.array(of_all).T, np.array(of_worst).T):
            cells.append(f"{points.mean():+.2f} / {points.min():+.2f}")
            cells.append(f"{nats.mean():+.3f} / {nats.max():+.3f}")
        print(f"| {way} | " + " | ".join(cells) + " |", flush=True)


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
    tables = {"--stretches": stretches, "--jumps": jumps}
    wanted = [tables[word] for word in sys.argv[1:] if word in tables] or [main]
    folders = [word for word in sys.argv[1:] if word not in tables]
    if len(folders) != 1:
        sys.exit(__doc__)
    for table in wanted:
        table(folders[0])
