"""Prediction sets of the estimator, beyond what `test_suite` sees."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator

from stream_can.sklearn import StreamCalibrator

pytestmark = pytest.mark.fast


@pytest.mark.filterwarnings("ignore:fit. no validation row:UserWarning")
@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
def test_scikit_learns_own_checks():
    done = check_estimator(StreamCalibrator(LogisticRegression(), cv=3, sets=0.9), on_skip=None)
    assert len(done) > 50
    others = {one["check_name"] for one in done if one["status"] != "passed"}
    assert others <= {"check_array_api_input"}


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def test_predicting_sets_changes_nothing(data):
    X, y = data
    model = StreamCalibrator(GaussianNB(), sets=0.9)
    with pytest.raises(NotFittedError):
        model.predict_set(X)
    model.fit(X[:900], y[:900])
    assert model.corrector_.set_counts == (900, 900)
    before = model.corrector_.to_bytes()
    first = model.predict_set(X[900:])
    assert first[np.arange(len(first)), model.predict(X[900:])].all()
    assert (model.predict_set(X[900:]) == first).all()
    assert model.corrector_.to_bytes() == before
    after = model.successor(GaussianNB().fit(X, y))
    assert (after.sets, after.corrector_.set_counts) == (0.9, (0, 0))


@pytest.mark.parametrize("cv", [3, "prefit"])
def test_what_is_no_share_is_refused_in_fit(data, cv):
    X, y = data
    model = GaussianNB().fit(X[:300], y[:300]) if cv == "prefit" else GaussianNB()
    model = StreamCalibrator(model, cv=cv, sets=90)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="sets: 90, expected a number > 0 and < 1: share of"):
            call(X[:300], y[:300])
        with pytest.raises(NotFittedError):
            model.predict(X)


def test_a_snapshot_has_them_and_another_promise_begins_anew(data):
    X, y = data
    trained = GaussianNB().fit(X[:600], y[:600])
    first = StreamCalibrator(trained, cv="prefit", sets=0.9).fit(X[600:900], y[600:900])
    kept = first.corrector_.to_bytes()
    for sets, counts in ((0.9, (300, 300)), (0.8, (0, 0))):
        model = StreamCalibrator(trained, cv="prefit", sets=sets).restore(kept)
        assert (model.corrector_.sets, model.corrector_.set_counts) == (sets, counts)
