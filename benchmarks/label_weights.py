"""Weights of labels that were chosen with known probabilities, on recorded streams.

    python benchmarks/label_weights.py FOLDER

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,). Labels come 100 rows
late. "by class": 1 in 2 of the labels of the rarest classes, together a tenth of the rows, and 1 in
20 of the others; "ask": `LabelRequests` of 5 % of the rows, half at random and half by margin. The
weights are 1 / probability, of a label requested by margin 1; "as shares" the same divided by the
largest. Change of accuracy in points and of log loss against the classifier, mean and worst.

    python benchmarks/label_weights.py FOLDER --figures

What a replay of labels "by class" and their weights says of accuracy, beside the truth from the
labels of all rows: where scores count each label once, and by its weight.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from recorded import recorded

from stream_can import Corrector, LabelRequests
from stream_can.change import Changes
from stream_can.dense.result import DenseReplay
from stream_can.method.uncertainty import margin
from stream_can.replay import from_arrays, steps
from stream_can.replay.steps import learner_of

DELAY, RARE, OTHERS, ASK = 100, 0.5, 0.05, 0.05
HOW = ["no weights", "1 / probability", "as shares"]


def weights_of(chance: Any, how: str) -> Any:
    weights = 1 / np.maximum(chance, 0.01)
    return None if how == HOW[0] else weights if how == HOW[1] else weights * chance.min()


def chance_by_class(y: Any, m: int) -> Any:
    """How likely each label is chosen by its class."""
    seen = np.bincount(y, minlength=m)
    order = np.argsort(seen)
    rare = order[np.cumsum(seen[order]) <= 0.1 * len(y)]
    return np.where(np.isin(y, rare), RARE, OTHERS)


def by_class(P: Any, y: Any, counts: Any, how: str, seed: int) -> Any:
    """Rows as sent, where labels are chosen by their class."""
    n, m = P.shape
    chance = chance_by_class(y, m)
    if how == "1 in 20 of all":
        chance = np.full(n, OTHERS)
    at = np.flatnonzero(np.random.default_rng(seed).random(n) < chance)
    due, corrector = np.minimum(at + DELAY, n), Corrector(m, train_counts=counts)
    weights = None if how == "1 in 20 of all" else weights_of(chance[at], how)
    return corrector.play(P, y[at], at, due, receipt=True, weights=weights).rows


def asked(P: Any, y: Any, counts: Any, how: str, seed: int) -> Any:
    """Rows as sent, where labels are requested."""
    n, m = P.shape
    corrector, asks = Corrector(m, train_counts=counts), LabelRequests(ASK, seed=seed)
    sent, waiting = np.empty((n, m)), []
    for start in range(0, n, DELAY):
        for rows, at, receipts, chance in waiting:
            weights = weights_of(chance, HOW[1])
            weights = None if how == HOW[0] else weights if how == HOW[1] else weights * 0.025
            corrector.learn_many(rows, y[at], receipts=receipts, weights=weights)
        numbers = np.arange(start, min(n, start + DELAY))
        sent[numbers], receipts = corrector.process_many(P[numbers], receipt=True)
        requests = asks.ask_scored(numbers.tolist(), margin(sent[numbers]).tolist())
        at = np.array([i for i, request in enumerate(requests) if request], int)
        chance = np.array([request.probability for request in requests if request])
        waiting = [(P[numbers][at], numbers[at], receipts[at], chance)] if len(at) else []
    return sent


def worth(sent: Any, P: Any, y: Any) -> tuple[float, float]:
    at = np.arange(len(y))
    losses = [-np.log(np.maximum(rows[at, y], 1e-6)).mean() for rows in (sent, P)]
    right = [(rows.argmax(axis=1) == y).mean() for rows in (sent, P)]
    return 100 * (right[0] - right[1]), losses[0] - losses[1]


def figures(P: Any, y: Any, counts: Any, seed: int) -> Any:
    """Accuracy before and after and its change, in points: by all labels, and by those that came,
    counted once and by weight; each with the ends of the interval of the change."""
    n, m = P.shape
    chance = chance_by_class(y, m)
    came = np.random.default_rng(seed).random(n) < chance
    learner, sent = learner_of(Corrector(m, train_counts=counts)), []
    result, weights = DenseReplay(learner), chance.min() / chance
    chunks = (
        chunk._replace(weight=weights[chunk.first : chunk.first + len(chunk.P)])
        for chunk in from_arrays(P, np.where(came, y, -1))
    )
    for step in steps(chunks, learner, label_delay=DELAY, explain=False):
        result.add(step)
        sent.append(step.corrected)
    rows, at = np.concatenate(sent), np.flatnonzero(came)
    right = np.array([side.argmax(axis=1) == y for side in (P, rows)], float)
    sums = np.stack([right[:, at], np.zeros((2, len(at)))], axis=1)
    once = Changes.of_sums(np.ones(len(at)), *sums)
    true = [*right.mean(axis=1), right[1].mean() - right[0].mean()]
    table = [
        [change.before, change.after, change.value, *change.interval]
        for change in (once.accuracy, result.changes().accuracy)
    ]
    return 100 * np.array([[*true, 0, 0], *table])


def show_figures(folder: Path, seeds: int) -> None:
    rows = []
    for path in sorted(folder.glob("*.npz")):
        for seed in range(seeds):
            rows.append(figures(*recorded(path), seed))
            true, once, weighted = rows[-1].round(2).tolist()
            print(path.stem, "true", true[:3], "once", once, "by weight", weighted, flush=True)
    true, *shown = np.array(rows).transpose(1, 2, 0)
    for how, (before, after, gain, low, high) in zip(("once", "by weight"), shown, strict=True):
        off = [np.abs(a - b) for a, b in zip((before, after, gain), true, strict=False)]
        inside = (low <= true[2]) & (true[2] <= high)
        clear = np.abs(true[2]) >= 0.5
        wrong = ((low > 0) & (true[2] < 0)) | ((high < 0) & (true[2] > 0))
        print(f"{how:9} off by {off[0].mean():.2f} / {off[0].max():.2f} before,"
              f" {off[1].mean():.2f} / {off[1].max():.2f} after, {off[2].mean():.2f} /"
              f" {off[2].max():.2f} change; true change in the interval in"
              f" {inside.sum()} of {len(gain)}, of those of 0.5 points or more in"
              f" {inside[clear].sum()} of {clear.sum()}; the opposite said beyond chance in"
              f" {wrong.sum()}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    if options.figures:
        show_figures(options.folder, options.seeds)
        return
    cases = [(by_class, how) for how in [*HOW, "1 in 20 of all"]] + [(asked, how) for how in HOW]
    found: dict[Any, list[Any]] = {case: [] for case in cases}
    for path in sorted(options.folder.glob("*.npz")):
        P, y, counts = recorded(path)
        for play, how in cases:
            played = [worth(play(P, y, counts, how, seed), P, y) for seed in range(options.seeds)]
            found[play, how].append(np.mean(played, axis=0))
            print(path.stem, play.__name__, how, found[play, how][-1].round(3), flush=True)
    for (play, how), rows in found.items():
        points, nats = np.array(rows).T
        print(f"{play.__name__:9} {how:16} {points.mean():+.2f} / {points.min():+.2f} points,"
              f" {nats.mean():+.3f} / {nats.max():+.3f} nats")  # fmt: skip


if __name__ == "__main__":
    main()
