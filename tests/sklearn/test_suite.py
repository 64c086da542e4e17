"""The suite of `tests.check_corrector`: the estimator behind a trained classifier."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from stream_can.sklearn import StreamCalibrator
from tests.check_corrector import CHECKS, COLUMN, Adapter, Seen, without_receipts

pytestmark = pytest.mark.fast


class Says(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are its features."""

    def __init__(self, classes):
        self.classes = classes
        self.classes_ = np.array(classes)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X[[c for c in X.columns if c != COLUMN]].to_numpy(float)


def table(one):
    frame = pd.DataFrame([one.p])
    frame.columns = [f"p{k}" for k in range(len(one.p))]
    return frame.assign(**({} if one.given is None else {COLUMN: [one.given[COLUMN]]}))


class Estimator(Adapter):
    plain = staticmethod(without_receipts)

    def __init__(self, classes, **settings):
        counts = settings.pop("train_counts", None)
        self.model = StreamCalibrator(Says(classes), cv="prefit", train_counts=counts, **settings)
        self.model._start(self.model.estimator, np.empty(0))  # as its first partial_fit does

    def play(self, events):
        found, model = Seen({}, {}), self.model
        for one in events:
            X = table(one)
            if one.is_label:
                model.partial_fit(X, [one.label])
                continue
            found.rows[one.i] = model.predict_proba(X)[0].tolist()
            if model.sets is not None:
                (has,) = model.predict_set(X)
                found.sets[one.i] = {*model.classes_[has].tolist()}
            model.observe(X)
        return found

    def state(self):
        return self.model.corrector_.to_bytes()

    def restart(self):
        again = type(self).__new__(type(self))
        again.model = StreamCalibrator(**self.model.get_params(deep=False)).restore(self.state())
        return again

    def set_of(self, p):
        return self.model.predict_set(pd.DataFrame([p]))


@pytest.mark.parametrize("check", CHECKS)
def test_suite(check):
    check(Estimator)
