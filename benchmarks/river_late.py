"""What `CorrectedClassifier` changes where labels come 100 rows late, on data that river ships.

    python benchmarks/river_late.py

Each cell: accuracy in percent and log loss in nats. "asked again" is the wrapper, which asks the
classifier again when a label comes; "kept" a `Corrector` beside the classifier, which keeps what
was sent. In "drifting" data the classes come one after another, each fading into the next.
"""

from __future__ import annotations

import argparse
import math
import random
from typing import Any

from river import datasets, linear_model, naive_bayes, preprocessing, stream, tree

from stream_can import Corrector, Learner
from stream_can.river import CorrectedClassifier

DELAY = 100
CLASSIFIERS = {
    "`GaussianNB`": naive_bayes.GaussianNB(),
    "`HoeffdingTreeClassifier`": tree.HoeffdingTreeClassifier(),
    "scaled `SoftmaxRegression`": preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
}


def drifting(rows: list[Any]) -> list[Any]:
    noise, classes = random.Random(0), sorted({y for _, y in rows}, key=str)
    return sorted(rows, key=lambda row: classes.index(row[1]) / len(classes) + noise.gauss(0, 0.35))


def score(model: Any, rows: list[Any], kept: bool = False) -> str:
    names = sorted({y for _, y in rows}, key=str)
    learner = Learner(Corrector(names)) if kept else None
    sent: dict[int, dict[Any, float]] = {}
    right, losses = [], []
    for i, x, y in stream.simulate_qa(rows, None, DELAY):
        if y is None:
            p = model.predict_proba_one(x)
            if learner is not None and p:
                row = learner.process(str(i), [p.get(name, 0.0) for name in names])
                p = dict(zip(names, row, strict=True))
            sent[i] = p
            continue
        if p := sent.pop(i):
            right.append(max(p, key=lambda name: p[name]) == y)
            losses.append(-math.log(max(p.get(y, 0.0), 1e-15)))
            if learner is not None:
                learner.label(str(i), y)
        model.learn_one(x, y)
    return f"{100 * sum(right) / len(right):.2f}, {sum(losses) / len(losses):.3f}"


def main() -> None:
    print("| | as it came | asked again | kept |\n|---|---|---|---|")
    for data in (datasets.ImageSegments(), datasets.Phishing()):
        for order in ("", " drifting"):
            rows = drifting([*data]) if order else [*data]
            for name, model in CLASSIFIERS.items():
                cells = (
                    score(model.clone(), rows),
                    score(CorrectedClassifier(model.clone()), rows),
                    score(model.clone(), rows, kept=True),
                )
                print(f"| {type(data).__name__}{order}, {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    main()
