"""Prediction sets of the estimator: those that one would make by hand, and its promise kept."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator

from stream_can import Corrector, SnapshotMismatch, UnknownClass
from stream_can.sklearn import StreamCalibrator
from stream_can.trust.sets import PredictionSets

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


def test_sets_are_those_of_the_plain_loop(data):
    """To the bit: one by one in fit, then those that would be sent when the labels come."""
    X, y = data
    trained = GaussianNB().fit(X[:500], y[:500])
    model = StreamCalibrator(trained, cv="prefit", sets=0.8).fit(X[500:800], y[500:800])
    raw = trained.predict_proba(X)
    corrector, sets = Corrector(10), PredictionSets(10, 0.2)
    corrector.fit(raw[500:800], y[500:800])
    for row, label in zip(corrector.correct_many(raw[500:800]), y[500:800].tolist(), strict=True):
        found, ticket = sets.set_one(row)
        sets.learn_one(row, label, ticket)
    assert model.sets_.to_bytes() == sets.to_bytes()
    for start in range(800, 1700, 90):
        now, late = slice(start, start + 90), slice(start - 90, start)
        found = model.predict_set(X[now])
        expected, _ = pickle.loads(pickle.dumps(sets)).set_many(corrector.correct_many(raw[now]))
        assert (found == expected).all()
        assert found.shape == (len(X[now]), 10)
        assert found[np.arange(len(found)), model.predict(X[now])].all()
        model.observe(X[now]).partial_fit(X[late], y[late])
        sets.set_many(corrector.process_many(raw[now]))
        rows = corrector.correct_many(raw[late])
        corrector.learn_many(raw[late], y[late])
        sets.learn_many(rows, y[late].tolist(), sets.set_many(rows)[1])
        assert model.sets_.to_bytes() == sets.to_bytes()
        assert model.corrector_.to_bytes() == corrector.to_bytes()


def test_predicting_sets_changes_nothing(data):
    X, y = data
    model = StreamCalibrator(GaussianNB(), sets=0.9).fit(X[:900], y[:900])
    before = model.sets_.to_bytes(), model.corrector_.to_bytes()
    first = model.predict_set(X[900:])
    assert (model.predict_set(X[900:]) == first).all()
    assert (model.sets_.to_bytes(), model.corrector_.to_bytes()) == before


def test_the_promise_is_kept_where_the_class_mix_moves():
    rng = np.random.default_rng(1)
    n = 9000
    share = np.linspace(0, 1, n)[:, None] * [0.7, 0.1, 0.1, 0.1] + 0.05
    share /= share.sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > share.cumsum(axis=1)).sum(axis=1)
    X = rng.normal(size=(n, 2)) + 1.2 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[y]
    model = StreamCalibrator(GaussianNB(), sets=0.9).fit(X[:1000], y[:1000])
    kept = []
    for start in range(1000, n, 50):
        now, late = slice(start, start + 50), slice(start - 50, start)
        kept += model.predict_set(X[now])[np.arange(50), y[now]].tolist()
        model.observe(X[now]).partial_fit(X[late], y[late])
    assert np.mean(kept) == pytest.approx(0.9, abs=0.02)
    assert np.mean(kept[:500]) == pytest.approx(0.9, abs=0.06)


def test_a_calibrator_without_sets_is_as_ever(data):
    X, y = data
    models = [
        StreamCalibrator(GaussianNB(), sets=sets).fit(X[:600], y[:600]) for sets in (None, 0.9)
    ]
    for model in models:
        model.observe(X[600:900]).partial_fit(X[600:900], y[600:900])
    assert models[0].corrector_.to_bytes() == models[1].corrector_.to_bytes()
    assert models[0].sets_ is None
    with pytest.raises(ValueError, match="predict_set: nothing was promised; make it with sets="):
        models[0].predict_set(X)
    with pytest.raises(NotFittedError):
        StreamCalibrator(GaussianNB(), sets=0.9).predict_set(X)


@pytest.mark.parametrize("cv", [3, "prefit"])
@pytest.mark.parametrize("sets", [0, 1, 90, "0.9", float("nan"), True])
def test_what_is_no_share_is_refused_in_fit(data, cv, sets):
    X, y = data
    model = GaussianNB().fit(X[:300], y[:300]) if cv == "prefit" else GaussianNB()
    model = StreamCalibrator(model, cv=cv, sets=sets)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"sets: .*expected the share that sets promise"):
            call(X[:300], y[:300])
        with pytest.raises(NotFittedError):
            model.predict(X)


def test_a_label_of_no_class_teaches_nothing(data):
    X, y = data
    model = StreamCalibrator(GaussianNB(), sets=0.9).fit(X[:600], y[:600])
    before = model.sets_.to_bytes(), model.corrector_.to_bytes()
    with pytest.raises(UnknownClass):
        model.partial_fit(X[600:602], [1, 10])
    assert (model.sets_.to_bytes(), model.corrector_.to_bytes()) == before


def test_they_are_kept(data):
    """By pickle, and by two snapshots behind a prefit classifier."""
    X, y = data
    trained = GaussianNB().fit(X[:600], y[:600])
    first = StreamCalibrator(trained, cv="prefit", sets=0.9).fit(X[600:900], y[600:900])
    again = StreamCalibrator(trained, cv="prefit", sets=0.9).restore(
        first.corrector_.to_bytes(), first.sets_.to_bytes()
    )
    for model in (first, again, other := pickle.loads(pickle.dumps(first))):
        model.observe(X[900:]).partial_fit(X[900:], y[900:])
    assert first.sets_.to_bytes() == again.sets_.to_bytes() == other.sets_.to_bytes()
    assert (first.predict_set(X) == again.predict_set(X)).all()
    anew = StreamCalibrator(trained, cv="prefit", sets=0.9).restore(first.corrector_.to_bytes())
    assert anew.sets_.to_bytes() == PredictionSets(10, 0.1).to_bytes()
    after = first.successor(GaussianNB().fit(X, y))
    assert after.sets_.to_bytes() == PredictionSets(10, 0.1).to_bytes()
    assert after.successor(trained).sets == 0.9
    for sets, kept in ((0.8, first.sets_), (None, first.sets_), (0.9, PredictionSets(9))):
        model = StreamCalibrator(trained, cv="prefit", sets=sets)
        with pytest.raises(SnapshotMismatch, match="snapshot: of PredictionSets"):
            model.restore(first.corrector_.to_bytes(), kept.to_bytes())
