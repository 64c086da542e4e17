"""What labels buy that are asked for, against as many at random, and how the budget is kept.

    python benchmarks/label_requests.py [FOLDER] [--seeds 3]

Streams are made of scikit-learn's digits, read by classifiers that were trained on another mix of
them. In one kind the seasons turn the mix, in the other it jumps; each with the labels of all rows
to be had and with 15 in 100 of them, drawn at random. Labels are of one half of the images, and the
rows of the other half are scored.

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,). Where a stream repeats
rows, labels of one half of the distinct rows can be asked for and the other half is scored.

Labels come 100 rows late. The random labels are as many, in each stream, as were asked for there.
"mean / worst" is over all streams and seeds, in points of accuracy; behind it are the least and the
greatest mean of a seed. "most" is the most that was asked for in 1,000 rows whose label could be
had. At last, labels of 1 row in 20 at random, from the whole stream and from campaigns only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from recorded import halves, recorded

from stream_can import Corrector, LabelRequests
from stream_can.recording.recording import from_arrays
from stream_can.replay import steps

BUDGETS, DELAY, ROWS = (0.01, 0.05, 0.1), 100, 1000
LENGTH, SEASON, JUMP, FEW = 20_000, 2500, 700, 0.15
"""Of a stream, of a season, and between jumps, in rows; the share of labels where they are few."""
CAMPAIGN, PAUSE = 200, 1800
"""In rows."""


class Stream(NamedTuple):
    """Predictions of a classifier; n rows, m classes."""

    P: np.ndarray  # (n, m)
    y: np.ndarray  # (n,)
    counts: np.ndarray  # (m,)
    could: np.ndarray  # (n,), whose label can be asked for
    scored: np.ndarray  # (n,)


class Counted(LabelRequests):
    """Remembers which rows it asked for, among those that it was shown."""

    def ask_many(self, ids, rows):
        said = super().ask_many(ids, rows)
        self.shown = [*getattr(self, "shown", []), *(one is not None for one in said)]
        return said


class Found(NamedTuple):
    """Of one stream with one seed: points gained, and how the budget was kept."""

    asked: float
    at_random: float
    used: float
    most: float


def load(file: Path) -> Stream:
    P, y, counts = recorded(file)
    return Stream(P, y, counts, *halves(P))


# ---- streams that are made


def seasons(rng: np.random.Generator) -> np.ndarray:
    """The share of each digit in each row, shape (n, 10): each has its time of the year."""
    begins = rng.permutation(10) / 10
    turn = np.arange(LENGTH)[:, None] / SEASON + begins
    return np.exp(2.5 * np.cos(2 * np.pi * turn))


def jumps(rng: np.random.Generator) -> np.ndarray:
    """The share of each digit in each row, shape (n, 10): now and then another few are frequent."""
    mixes = rng.dirichlet(np.full(10, 0.5), LENGTH // JUMP + 1) + 0.01
    return mixes[np.arange(LENGTH) // JUMP]


def made(seed: int) -> Iterator[tuple[str, Stream]]:
    """Name of its kind and stream, with every label and with few."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import BernoulliNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Binarizer, StandardScaler

    X, y = load_digits(return_X_y=True)
    models: list[Any] = [
        make_pipeline(Binarizer(threshold=7), BernoulliNB()),
        make_pipeline(StandardScaler(), LogisticRegression(C=10, max_iter=2000)),
    ]
    for which, model in enumerate(models):
        for name, mix in (("seasons", seasons), ("jumps", jumps)):
            rng = np.random.default_rng([seed, which, mix is jumps])
            # Trained on a few hundred images, mostly of some digits.
            weights = rng.dirichlet(np.full(10, 2.0))[y]
            order = rng.permutation(len(y))
            pool, rest = order[:900], order[900:]
            train = rng.choice(pool, 300, p=weights[pool] / weights[pool].sum(), replace=False)
            train = np.union1d(train, [pool[y[pool] == digit][0] for digit in range(10)])
            model.fit(X[train], y[train])
            share = mix(rng)
            share = (share / share.sum(axis=1, keepdims=True)).cumsum(axis=1)
            digit = (rng.random((LENGTH, 1)) > share[:, :-1]).sum(axis=1)
            shown = np.array([rng.choice(rest[y[rest] == d]) for d in digit])
            # No image comes twice as it is: each time it is read with other noise.
            P = model.predict_proba(X[shown] + rng.normal(scale=2, size=(LENGTH, X.shape[1])))
            half = np.isin(shown, rest[::2])
            stream = Stream(P, digit, np.bincount(y[train]), half, ~half)
            yield name, stream
            few = half & (rng.random(LENGTH) < 2 * FEW)
            yield f"{name}, {100 * FEW:g} % of the labels", stream._replace(could=few)


# ---- what is measured


def points(data: Stream, given: np.ndarray, requests: LabelRequests | None = None) -> float:
    """By how many points of accuracy the corrected rows are better where these labels arrive."""
    chunks = [
        chunk._replace(arrives=given[chunk.first : chunk.first + len(chunk.P)])
        for chunk in from_arrays(data.P, data.y)
    ]
    corrector = Corrector(data.P.shape[1], train_counts=data.counts)
    parts = steps(chunks, corrector, label_delay=DELAY, requests=requests, explain=False)
    out = np.concatenate([step.corrected for step in parts])
    right = (out.argmax(axis=1) == data.y) * 1.0 - (data.P.argmax(axis=1) == data.y)
    return 100 * right[data.scored].mean()


def measure(data: Stream, budget: float, seed: int) -> Found:
    requests = Counted(budget, seed=seed)
    asked = points(data, data.could, requests)
    shown = np.array(requests.shown)
    total = np.concatenate([[0], np.cumsum(shown)])
    most = int((total[ROWS:] - total[:-ROWS]).max()) if len(shown) >= ROWS else int(total[-1])
    drawn = np.random.default_rng([seed, 1]).permutation(np.flatnonzero(data.could))
    given = np.isin(np.arange(len(data.y)), drawn[: shown.sum()])
    return Found(asked, points(data, given), shown.mean() / budget, most / ROWS / budget)


def in_campaigns(data: Stream, seed: int) -> list[float]:
    """Points where labels of 1 row in 20 are drawn from all rows, and from those of campaigns."""
    rng = np.random.default_rng(seed)
    rows = np.arange(len(data.y))
    running = (rows + rng.integers(CAMPAIGN + PAUSE)) % (CAMPAIGN + PAUSE) < CAMPAIGN
    found = []
    for could in (data.could, data.could & running):
        drawn = rng.permutation(np.flatnonzero(could))[: data.could.sum() // 20]
        found.append(points(data, np.isin(rows, drawn)))
    return found


def cell(by_seed: ArrayLike) -> str:
    """Mean, worst, and how far the means of the seeds are apart."""
    means = np.mean(by_seed, axis=1)
    return (
        f"{means.mean():+.2f} / {np.min(by_seed):+.2f} ({means.min():+.2f} to {means.max():+.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[tuple[str, float], dict[int, list[Found]]] = {}
    recorded = (
        [load(file) for file in sorted(arguments.folder.glob("*.npz"))] if arguments.folder else []
    )
    for seed in range(arguments.seeds):
        streams = [*(("recorded", one) for one in recorded), *made(seed)]
        for budget in BUDGETS:
            for name, data in streams:
                of_seeds = found.setdefault((name, budget), {})
                of_seeds.setdefault(seed, []).append(measure(data, budget, seed))
    print(
        "| streams | budget | asked for: mean / worst (seeds) | as many at random | spent | most |"
    )
    print("|---|--:|--:|--:|--:|--:|")
    for (name, budget), of_seeds in found.items():
        values = [[[one[k] for one in run] for run in of_seeds.values()] for k in range(4)]
        print(
            f"| {name} | {100 * budget:g} % | {cell(values[0])} | {cell(values[1])} | "
            f"{100 * np.mean(values[2]):.0f} % | {100 * np.max(values[3]):.0f} % |"
        )
    for kind in ("seasons", "jumps"):
        by_seed = [
            [in_campaigns(data, seed) for name, data in made(seed) if name == kind]
            for seed in range(arguments.seeds)
        ]
        evenly, campaigns = np.moveaxis(by_seed, -1, 0)
        print(f"{kind}, 1 in 20 at random: {cell(evenly)}, in campaigns: {cell(campaigns)}")


if __name__ == "__main__":
    main()
