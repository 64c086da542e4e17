"""stream_can against the calibration family on recorded streams, each rival over all of them.

    python benchmarks/compare.py FOLDER [NAME ...]
    python benchmarks/compare.py FOLDER --labels    # the best rivals where labels are few or late

FOLDER holds .npz files as benchmarks/validation.py takes them. Labels 100 rows late. Where a stream
repeats rows, labels of one half of the distinct rows are learned and the other half is scored. The
scores of each stream are kept in compare.json, so that an interrupted run goes on. A rival that
does not play very many classes stands in a table of its own, over the streams that it plays, beside
stream_can.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from recorded import halves
from validation import DELAY, load

from stream_can.compare import Stream, compare, rivals
from stream_can.compare.kalman import MOST_CLASSES
from stream_can.compare.outcome import against

KEPT = Path("compare.json")
LABELS = {
    "every label, 100 rows late": (1.0, DELAY),
    "1 in 20": (0.05, DELAY),
    "every label, 1,000 rows late": (1.0, 1000),
    "none": (0.0, DELAY),
}
BEST = ["temperature", "structured-matrix", "isotonic-refitted", "vector-refitted", "ops"]
BEST += ["stream_can-labels", "stream_can-fit-labels"]
FEW_CLASSES = ["kalman", "kalman-fitted"]


def stream_of(data: dict[str, np.ndarray], rate: float = 1.0, delay: int = DELAY) -> Stream:
    P, y = data["probs"], data["labels"].astype(np.int64)
    given, scored = halves(P)
    given = given & (np.random.default_rng(0).random(len(P)) < rate)
    validation = data["val_probs"], data["val_labels"].astype(np.int64)
    classes = list(range(P.shape[1]))
    return Stream(classes, P, y, given, scored, validation, data["train_counts"], delay)


def by_labels(folder: str) -> None:
    """A row for each rival, a column for each way in which labels come: means over the streams."""
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for file in sorted(Path(folder).glob("*.npz")):
        if not (data := load(file)):
            continue
        few = data["probs"].shape[1] <= MOST_CLASSES
        for setting, (rate, delay) in LABELS.items():
            playing = rivals(names=BEST + FEW_CLASSES * few)
            outcomes = list(compare(stream_of(data, rate, delay), playing))
            for one in outcomes[1:]:
                changed = against(one, outcomes[0]).summary()
                pair = changed["points"], changed["nats"]
                found.setdefault(one.name, {}).setdefault(file.stem, {})[setting] = pair
        print(file.stem, flush=True)
    for streams, names in tables(found):
        print(f"\n{len(streams)} streams\n\n| | " + " | ".join(LABELS))
        print("|---" * (len(LABELS) + 1) + "|")
        for name in names:
            cells = []
            for setting in LABELS:
                pairs = [found[name][stream][setting] for stream in streams]
                points, nats = np.mean(pairs, axis=0)
                cells.append(f"{points:+.2f}, {nats:+.3f} (worst {np.max(pairs, axis=0)[1]:+.3f})")
            print(f"| {name} | " + " | ".join(cells) + " |")


def tables(found: dict[str, dict[str, Any]]) -> Iterator[tuple[list[str], list[str]]]:
    """The streams and rivals of each table: those that played all, then all on fewer streams."""
    every = max(found.values(), key=len)
    yield [*every], [name for name, streams in found.items() if len(streams) == len(every)]
    if fewer := [streams for streams in found.values() if len(streams) < len(every)]:
        yield [*fewer[0]], [*found]


def main(folder: str, names: list[str]) -> None:
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    warnings.filterwarnings("ignore", "rivals: .* at most")
    for file in sorted(Path(folder).glob("*.npz")):
        if file.stem in kept or (names and file.stem not in names) or not (data := load(file)):
            continue
        playing = rivals(names="all", classes=data["probs"].shape[1])
        outcomes = list(compare(stream_of(data), playing))
        kept[file.stem] = {
            one.name: one.scores.summary()
            | against(one, outcomes[0]).summary()
            | {"microseconds": one.microseconds}
            for one in outcomes
        }
        KEPT.write_text(json.dumps(kept, indent=1))
        print(file.stem, flush=True)
    of_each: dict[str, dict[str, dict[str, float]]] = {}
    for stream, outcomes in kept.items():
        for name, scores in outcomes.items():
            of_each.setdefault(name, {})[stream] = scores
    for streams, names in tables(of_each):
        rows = {name: [of_each[name][stream] for stream in streams] for name in names}
        print(f"\n{len(streams)} streams\n\n{table(rows)}")


def table(rows: dict[str, list[dict[str, float]]]) -> str:
    """Markdown: mean and worst over the streams."""
    lines = [
        "| | accuracy, points: mean / worst / median | log loss: mean / worst | ECE % | MCE % "
        "| µs/row: median (most) |",
        "|---|---|---|--:|--:|--:|",
    ]
    for name, every in rows.items():
        points, nats, ece, mce, spent = (
            np.array([one[key] for one in every])
            for key in ("points", "nats", "ece", "mce", "microseconds")
        )
        lines.append(
            f"| {name} | {points.mean():+.2f} / {points.min():+.2f} / {np.median(points):+.2f} "
            f"| {nats.mean():+.3f} / {nats.max():+.3f} | {100 * ece.mean():.1f} "
            f"| {100 * mce.mean():.0f} | {np.median(spent):.0f} ({spent.max():.0f}) |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if "--labels" in sys.argv:
        by_labels(sys.argv[1])
    else:
        main(sys.argv[1], sys.argv[2:])
