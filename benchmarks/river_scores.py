"""What the wrapper changes on river's bundled data sets: accuracy and log loss."""

from __future__ import annotations

import argparse
import math
import random
import statistics
from typing import Any

from river import (
    base,
    datasets,
    linear_model,
    multiclass,
    naive_bayes,
    preprocessing,
    stream,
    tree,
)

from stream_can import Corrector
from stream_can.river import CorrectedClassifier

Rows = list[tuple[dict[Any, Any], Any]]


def shuffled(rows: Rows, seed: int) -> Rows:
    """The rows in a random order."""
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    return rows


def drifting(rows: Rows) -> Rows:
    """The classes come one after another, each fading into the next."""
    noise, classes = random.Random(0), sorted({y for _, y in rows}, key=str)
    return sorted(rows, key=lambda r: classes.index(r[1]) / len(classes) + noise.gauss(0, 0.35))


DATA = {
    "ImageSegments": lambda: list(datasets.ImageSegments()),
    "ImageSegments, drifting": lambda: drifting(list(datasets.ImageSegments())),
    "Phishing": lambda: list(datasets.Phishing()),
    "Phishing, drifting": lambda: drifting(list(datasets.Phishing())),
    "Bananas": lambda: list(datasets.Bananas()),
}
CLASSIFIERS: dict[str, base.Classifier] = {
    "GaussianNB": naive_bayes.GaussianNB(),
    "HoeffdingTree": tree.HoeffdingTreeClassifier(),
    "scaled SoftmaxRegression": preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
    "scaled OneVsRest(Logistic)": preprocessing.StandardScaler()
    | multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
}


def outcomes(model: base.Classifier, rows: Rows, delay: int | None) -> list[tuple[bool, float]]:
    """(right?, log loss) of each row that was answered; both in the order of the labels."""
    served: dict[int, dict[Any, float]] = {}
    scored = []
    for i, x, y in stream.simulate_qa(rows, None, delay):
        if y is None:
            served[i] = model.predict_proba_one(x)
            continue
        p = served.pop(i)
        if p:
            right = max(p, key=lambda name: p[name]) == y
            scored.append((right, -math.log(max(p.get(y, 0.0), 1e-15))))
        model.learn_one(x, y)
    return scored


def kept(model: base.Classifier, rows: Rows, delay: int) -> list[tuple[bool, float]]:
    """The same with a Corrector beside the classifier, which keeps each row and its receipt."""
    names = sorted({y for _, y in rows}, key=str)
    corrector, served, scored = Corrector(names), {}, []
    for i, x, y in stream.simulate_qa(rows, None, delay):
        if y is None:
            if p := model.predict_proba_one(x):
                row = [p.get(name, 0.0) for name in names]
                served[i] = row, *corrector.process_one(row, receipt=True)
            continue
        if i in served:
            row, better, receipt = served.pop(i)
            at = names.index(y)
            scored.append((int(better.argmax()) == at, -math.log(max(better[at], 1e-15))))
            corrector.learn_one(row, y, receipt=receipt)
        model.learn_one(x, y)
    return scored


def compare(classifier: base.Classifier, rows: Rows, delay: int | None) -> dict[str, float]:
    """Scores without the wrapper, the change with it, and the rows that changed sides."""
    plain = outcomes(classifier.clone(), rows, delay)
    wrapped = outcomes(CorrectedClassifier(classifier.clone()), rows, delay)
    n, pairs = len(plain), list(zip(plain, wrapped, strict=True))
    return {
        "accuracy": 100 * sum(right for right, _ in plain) / n,
        "log loss": sum(loss for _, loss in plain) / n,
        "lost": sum(a[0] and not b[0] for a, b in pairs),
        "won": sum(b[0] and not a[0] for a, b in pairs),
        "points": 100 * sum(b[0] - a[0] for a, b in pairs) / n,
        "nats": sum(b[1] - a[1] for a, b in pairs) / n,
    }


def compare_kept(delay: int) -> None:
    """The wrapper asks the classifier again when a label comes; against keeping what was served."""
    print("| data | classifier | asked again | kept |\n|---|---|---|---|")
    for data, load in DATA.items():
        rows = load()
        for name, classifier in CLASSIFIERS.items():
            asked = outcomes(CorrectedClassifier(classifier.clone()), rows, delay)
            both = [asked, kept(classifier.clone(), rows, delay)]
            cells = [
                f"{100 * statistics.mean(right for right, _ in one):.2f},"
                f" {statistics.mean(loss for _, loss in one):.3f}"
                for one in both
            ]
            print(f"| {data} | {name} | {cells[0]} | {cells[1]} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=int, default=100, help="labels late by so many rows")
    parser.add_argument(
        "--orders", type=int, default=20, help="orders to try where a score got worse"
    )
    parser.add_argument(
        "--kept", action="store_true", help="late labels alone: the wrapper, or rows kept outside"
    )
    args = parser.parse_args()
    if args.kept:
        compare_kept(args.delay)
        return
    worse = []
    print("| data | classifier | labels late by | accuracy | wrapped | log loss | wrapped |")
    print("|---|---|---|---|---|---|---|")
    for data, load in DATA.items():
        rows = load()
        for name, classifier in CLASSIFIERS.items():
            for delay in (None, args.delay):
                s = compare(classifier, rows, delay)
                print(
                    f"| {data} | {name} | {delay or 0} | {s['accuracy']:.2f} | {s['points']:+.2f}"
                    f" | {s['log loss']:.4f} | {s['nats']:+.4f} |",
                    flush=True,
                )
                if s["points"] < -0.2 or s["nats"] > 0.005:
                    worse.append((data, name, delay, s))
    if not worse or not args.orders:
        return
    print("\nWorse than 0.2 points or 0.005 nats, and the same rows in other orders:\n")
    print("| data | classifier | labels late by | points | rows won : lost | nats |", end="")
    print(f" points over {args.orders} orders: mean, standard error, worst | nats: mean, worst |")
    print("|---|---|---|---|---|---|---|---|")
    for data, name, delay, s in worse:
        rows = DATA[data]()
        again = [
            compare(CLASSIFIERS[name], shuffled(rows, seed), delay) for seed in range(args.orders)
        ]
        points, nats = [a["points"] for a in again], [a["nats"] for a in again]
        error = statistics.stdev(points) / len(points) ** 0.5
        print(
            f"| {data} | {name} | {delay or 0} | {s['points']:+.2f} | {s['won']} : {s['lost']}"
            f" | {s['nats']:+.4f} | {statistics.mean(points):+.3f}, {error:.3f}, {min(points):+.2f}"
            f" | {statistics.mean(nats):+.4f}, {max(nats):+.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
