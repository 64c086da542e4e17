"""Prediction sets of the wrapper, beyond what `test_suite` sees: classes that appear, frames."""

from __future__ import annotations

import math
import pickle

import polars as pl
import pytest
from river import checks, linear_model, naive_bayes, preprocessing

from stream_can.river import CorrectedClassifier, FrozenClassifier
from tests.river.rows import segments

pytestmark = pytest.mark.fast

SCALED_SOFTMAX = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            CorrectedClassifier(naive_bayes.GaussianNB(), sets=0.9), marks=pytest.mark.release
        ),
        pytest.param(CorrectedClassifier(SCALED_SOFTMAX, sets=0.9), marks=pytest.mark.release),
        CorrectedClassifier(linear_model.LogisticRegression(), sets=0.5),
    ],
    ids=str,
)
def test_river_checks(model):
    passed = 0
    for check in checks.yield_checks(model):
        check(model.clone())
        passed += 1
    assert passed >= 35


def test_predicting_sets_changes_nothing():
    model = CorrectedClassifier(naive_bayes.GaussianNB(), sets=0.9)
    rows = segments(60)
    assert model.predict_set_one(rows[0][0]) == []
    for x, y in rows:
        model.learn_one(x, y)
        pickled = pickle.dumps(model)
        first = model.predict_set_one(x)
        assert model.predict_set_one(x) == first
        assert pickle.dumps(model) == pickled


def test_classes_that_appear_silent_rows_and_rows_without_a_label():
    p = {"a": 0.7, "b": 0.3}
    model = CorrectedClassifier(FrozenClassifier(lambda x: dict(p)), sets=0.9)
    assert set(model.predict_set_one({})) <= {"a", "b"}  # before the first label, of what it says
    assert model.corrector is None
    for _ in range(30):
        model.learn_one({}, "a")
    assert (model.corrector.classes, model.corrector.set_counts) == (("a", "b"), (30, 30))
    p["c"] = 5.0
    assert model.predict_set_one({})[0] == "c"
    assert model.corrector.classes == ("a", "b")
    model.learn_one({}, "c")  # the classifier has named it: it counts
    model.learn_one({}, "d")  # nobody has
    model.learn_one({}, None)
    assert model.corrector.classes == ("a", "b", "c", "d")
    assert model.corrector.set_counts == (33, 31)
    p.clear()
    assert model.predict_set_one({})[0] == "a"  # the class mix
    model.learn_one({}, "a")
    p.update(a=math.nan)
    model.learn_one({}, "b")
    assert model.corrector.set_counts == (33, 31)  # what says nothing has no set of its own


def test_batches_are_the_loop():
    rows = segments(200)
    one, many = (CorrectedClassifier(FrozenClassifier(trained(rows)), sets=0.9) for _ in range(2))
    for x, y in rows[100:]:
        one.learn_one(x, y)
    frame = pl.DataFrame([x for x, _ in rows[100:]])
    many.learn_many(frame, pl.Series([y for _, y in rows[100:]]))
    assert one.corrector.to_bytes() == many.corrector.to_bytes()


def trained(rows):
    model = naive_bayes.GaussianNB()
    for x, y in rows[:100]:
        model.learn_one(x, y)
    return model.predict_proba_one


def test_clones_and_successors_begin_anew():
    model, rows = CorrectedClassifier(naive_bayes.GaussianNB(), sets=0.9), segments(100)
    for x, y in rows:
        model.learn_one(x, y)
    assert (model.clone().corrector, model.clone().sets) == (None, 0.9)
    after = model.successor(naive_bayes.GaussianNB())
    assert (after.corrector.sets, after.corrector.set_counts) == (0.9, (0, 0))
