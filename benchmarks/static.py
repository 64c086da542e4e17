"""Data that stands still and gives no label afterwards: `StreamCalibrator` against
`CalibratedClassifierCV`, digits of scikit-learn, a half to fit on and a half to score.

    python benchmarks/static.py
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

from stream_can.sklearn import StreamCalibrator

CLASSIFIERS = {
    "naive Bayes, Bernoulli": make_pipeline(Binarizer(threshold=7), BernoulliNB()),
    "naive Bayes, Gaussian": GaussianNB(),
    "forest": RandomForestClassifier(random_state=0),
    "logistic regression": LogisticRegression(max_iter=200),
}
WAYS = ("as it is", "temperature", "isotonic", "sigmoid", "StreamCalibrator")


def losses(classifier, seed: int) -> list[float]:
    """Log loss of each of WAYS on the half that nothing was fitted on."""
    X, y = load_digits(return_X_y=True)
    X, held, y, right = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    models = [
        classifier,
        *(CalibratedClassifierCV(classifier, method=way) for way in WAYS[1:4]),
        StreamCalibrator(classifier),
    ]
    return [log_loss(right, model.fit(X, y).predict_proba(held)) for model in models]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    print("log loss, minimum / median / maximum of the seeds\n")
    print("| classifier |", " | ".join(WAYS), "|")
    print("|---|" + "--:|" * len(WAYS))
    for name, classifier in CLASSIFIERS.items():
        of_seeds = np.array([losses(classifier, seed) for seed in range(seeds)])
        parts = np.stack([of_seeds.min(0), np.median(of_seeds, 0), of_seeds.max(0)])
        cells = (" / ".join(f"{value:.3f}" for value in column) for column in parts.T)
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
