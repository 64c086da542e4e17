"""What the wrapper costs around river's classifiers: one pass of predict and learn, as ratios."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from river import base, datasets, linear_model, naive_bayes, preprocessing, tree

from stream_can.river import CorrectedClassifier, FrozenClassifier

CLASSIFIERS = {
    "none (a function)": FrozenClassifier(lambda x: {"sky": 0.6, "grass": 0.3, "path": 0.1}),
    "GaussianNB": naive_bayes.GaussianNB(),
    "HoeffdingTreeClassifier": tree.HoeffdingTreeClassifier(),
    "SoftmaxRegression": linear_model.SoftmaxRegression(),
}
CHUNK = 20


def seconds(model: base.Classifier, rows: list[Any], asked: int = 1) -> float:
    """CPU seconds to predict each row ``asked`` times and learn it."""
    start = time.process_time()
    for x, y in rows:
        for _ in range(asked):
            model.predict_proba_one(x)
        model.learn_one(x, y)
    return time.process_time() - start


def one_round(classifier: base.Classifier, rows: list[Any]) -> tuple[float, float, float]:
    """CPU seconds of the plain classifier, of one that predicts twice, and of the wrapped one.

    In turns of a few rows, so that a busy moment of the machine meets all three.
    """
    plain, twice, wrapped = (classifier.clone() for _ in range(3))
    corrected = CorrectedClassifier(wrapped)
    total = [0.0, 0.0, 0.0]
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        total[0] += seconds(plain, chunk)
        total[1] += seconds(twice, chunk, asked=2)
        total[2] += seconds(corrected, chunk)
    return total[0], total[1], total[2]


def spread(values: list[float], form: str) -> str:
    """min / median / max."""
    return " / ".join(form % v for v in (min(values), statistics.median(values), max(values)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    scaler = preprocessing.StandardScaler()
    rows = []
    for x, y in datasets.ImageSegments():
        scaler.learn_one(x)
        rows.append((scaler.transform_one(x), y))
    n = len(rows)
    print(f"ImageSegments, {n} rows, 7 classes, {rounds} rounds, CPU time: min / median / max\n")
    print("| classifier | wrapped / plain | wrapped / plain that predicts twice |", end="")
    print(" wrapped: us more a record than plain | wrapped: records a second |")
    print("|---|---|---|---|---|")
    for name, classifier in CLASSIFIERS.items():
        measured = [one_round(classifier, rows) for _ in range(rounds)]
        columns = (
            spread([wrapped / plain for plain, _, wrapped in measured], "%.2f"),
            spread([wrapped / twice for _, twice, wrapped in measured], "%.2f"),
            spread([(wrapped - plain) / n * 1e6 for plain, _, wrapped in measured], "%.0f"),
            spread([n / wrapped for _, _, wrapped in measured], "%.0f"),
        )
        print(f"| {name} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
