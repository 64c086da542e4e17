"""A classifier in scikit-learn whose class mix drifts, corrected as its labels come in.

Digits are read from images; in the stream the low ones fade into the high ones. The classifier is
trained once. `StreamCalibrator` is fitted to held-out folds of the training rows; then it sees each
batch, answers, and learns the labels of the batch before. Beside it what scikit-learn has: the same
classifier, calibrated once.

Run it: `python examples/sklearn_drift.py` (needs the extra compare).
"""

from __future__ import annotations

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

from stream_can.scores import Scores
from stream_can.sklearn import StreamCalibrator

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(y))
train, rest = order[:500], order[500:]
# The same images come again and again; which ones, depends on how far the stream is.
mix = np.linspace(0, 1, 6000)[:, None]
share = (1 - mix) * (np.arange(10) < 5) + mix * (np.arange(10) >= 5) + 0.02
digit = (rng.random((6000, 1)) > (share / share.sum(1, keepdims=True)).cumsum(1)[:, :-1]).sum(1)
stream = np.array([rng.choice(rest[y[rest] == d]) for d in digit])

# Naive Bayes takes pixels for independent, and is overconfident.
classifier = make_pipeline(Binarizer(threshold=7), BernoulliNB())
once = CalibratedClassifierCV(classifier, method="temperature").fit(X[train], y[train])
model = StreamCalibrator(classifier).fit(X[train], y[train])

scores = {name: Scores() for name in ("as it is", "CalibratedClassifierCV", "StreamCalibrator")}
before = stream[:0]
for batch in np.split(stream, 60):
    answers = [
        model.estimator_.predict_proba(X[batch]),
        once.predict_proba(X[batch]),
        model.predict_proba(X[batch]),
    ]
    for one, P in zip(scores.values(), answers, strict=True):
        one.add(P, y[batch])
    model.observe(X[batch])
    if len(before):
        model.partial_fit(X[before], y[before])  # the labels of the batch before are in
    before = batch

for name, one in scores.items():
    print(
        f"{name:<24} accuracy {100 * one.accuracy:.1f} %  log loss {one.log_loss:.3f}  "
        f"ECE {100 * one.ece:.1f} %"
    )

# What was learned goes on in another process, behind the same classifier; no pickle.
snapshot = model.corrector_.to_bytes()
again = StreamCalibrator(model.estimator_, cv="prefit").restore(snapshot)
assert (again.predict_proba(X[before]) == model.predict_proba(X[before])).all()
print(f"{len(snapshot):,} bytes hold what {again.corrector_.n_labels:,} labels have taught")
