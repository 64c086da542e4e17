"""Prediction sets of the wrapper: the plain loop's, whatever classes come, and the promise kept."""

from __future__ import annotations

import math
import pickle

import numpy as np
import polars as pl
import pytest
from river import checks, linear_model, naive_bayes, preprocessing, stream, tree

from stream_can.river import CorrectedClassifier, FrozenClassifier
from stream_can.trust.sets import PredictionSets
from tests.river.rows import phishing, segments

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


def by_hand(model, rows, delay, miss):
    """A wrapper, and PredictionSets beside it that see what it answers before each label.

    All classes are known from the start: those that come later must change nothing.
    """
    names = sorted({y for _, y in rows}, key=str)
    sets, heard, asked = PredictionSets(names, miss), set(), 0
    for _, x, y in stream.simulate_qa(rows, None, delay):
        answer = model.predict_proba_one(x)
        row = [answer.get(name, 0.0) for name in names]
        if y is None:
            found = model.predict_set_one(x)
            if answer:
                expected, _ = pickle.loads(pickle.dumps(sets)).set_one(row)
                # Where all classes are sent, those that nobody has named are not.
                assert set(found) == set(expected) & set(answer)
                assert found[0] == max(answer, key=answer.get)
                asked += len(expected) < len(answer)
        else:
            if answer:
                _, ticket = sets.set_one(row)
                if y in answer:
                    sets.learn_one(row, y, ticket)
            model.learn_one(x, y)
            heard.add(y)
    assert asked > 100
    return sets


@pytest.mark.parametrize("delay", [None, 30])
@pytest.mark.parametrize(
    ("classifier", "rows"),
    [
        (linear_model.LogisticRegression(), phishing()),
        (naive_bayes.GaussianNB(), segments()),
        (SCALED_SOFTMAX, segments()),
        (tree.HoeffdingTreeClassifier(), segments()),
    ],
    ids=["logistic", "bayes", "softmax", "tree"],
)
def test_equals_sets_driven_by_hand(classifier, rows, delay):
    model = CorrectedClassifier(classifier.clone(), sets=0.8)
    sets = by_hand(model, rows, delay, 0.2)
    ours = model.prediction_sets
    assert set(ours.classes) == set(sets.classes)
    assert ours.level == sets.level
    for name in ("_labels", "_belief", "_state"):
        # Rows name their classes in another order: sums of their belief may differ in rounding.
        assert getattr(ours, name) == pytest.approx(getattr(sets, name), rel=1e-12)


def test_with_classes_known_from_the_start_the_bits_are_the_plain_loops():
    def says(x):
        return {"a": x["u"], "b": 0.9 - x["u"], "c": 0.1}

    rng = np.random.default_rng(0)
    rows = [({"u": u}, "abc"[rng.choice(3, p=[u, 0.9 - u, 0.1])])
            for u in rng.uniform(0, 0.9, 400)]  # fmt: skip
    counts = {"a": 5, "b": 4, "c": 1}
    model = CorrectedClassifier(FrozenClassifier(says), train_counts=counts, sets=0.9)
    sets = by_hand(model, rows, 20, 0.1)
    assert model.prediction_sets.to_bytes() == sets.to_bytes()


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


def test_the_promise_is_kept_and_the_correction_is_as_ever():
    rows = phishing(1250)
    model = CorrectedClassifier(naive_bayes.GaussianNB(), sets=0.95)
    plain, kept, sizes = CorrectedClassifier(naive_bayes.GaussianNB()), [], []
    for x, y in rows:
        found = model.predict_set_one(x)
        kept.append(y in found)
        sizes.append(len(found))
        model.learn_one(x, y)
        plain.learn_one(x, y)
    assert np.mean(kept[100:]) == pytest.approx(0.95, abs=0.03)
    assert 1 < np.mean(sizes) < 1.6
    assert model.corrector.to_bytes() == plain.corrector.to_bytes()


def test_late_labels_keep_it_too():
    """Of sets as they were sent, 50 rows before their label, though others are judged."""
    rows, kept = phishing(1250), {}
    model = CorrectedClassifier(naive_bayes.GaussianNB(), sets=0.9)
    for i, x, y in stream.simulate_qa(rows, None, 50):
        if y is None:
            kept[i] = rows[i][1] in model.predict_set_one(x)
        else:
            model.learn_one(x, y)
    assert np.mean([*kept.values()][100:]) == pytest.approx(0.9, abs=0.04)


def test_classes_that_appear_silent_rows_and_rows_without_a_label():
    p = {"a": 0.7, "b": 0.3}
    model = CorrectedClassifier(FrozenClassifier(lambda x: dict(p)), sets=0.9)
    assert set(model.predict_set_one({})) <= {"a", "b"}  # before the first label, of what it says
    assert model.prediction_sets is None
    for _ in range(30):
        model.learn_one({}, "a")
    sets = model.prediction_sets
    assert (sets.classes, sets._rows, sets._learned) == (("a", "b"), 30, 30)
    p["c"] = 5.0
    assert model.predict_set_one({})[0] == "c"
    assert model.prediction_sets.classes == ("a", "b")
    model.learn_one({}, "c")  # the classifier has named it: it counts
    model.learn_one({}, "d")  # nobody has
    model.learn_one({}, None)
    sets = model.prediction_sets
    assert (sets.classes, sets._rows, sets._learned) == (("a", "b", "c", "d"), 33, 31)
    p.clear()
    assert model.predict_set_one({})[0] == "a"  # the class mix
    model.learn_one({}, "a")
    p.update(a=math.nan)
    model.learn_one({}, "b")
    assert (model.prediction_sets._rows, model.prediction_sets._learned) == (35, 33)


def test_batches_are_the_loop():
    rows = segments(200)
    one, many = (CorrectedClassifier(FrozenClassifier(trained(rows)), sets=0.9) for _ in range(2))
    for x, y in rows[100:]:
        one.learn_one(x, y)
    frame = pl.DataFrame([x for x, _ in rows[100:]])
    many.learn_many(frame, pl.Series([y for _, y in rows[100:]]))
    assert one.prediction_sets.to_bytes() == many.prediction_sets.to_bytes()


def trained(rows):
    model = naive_bayes.GaussianNB()
    for x, y in rows[:100]:
        model.learn_one(x, y)
    return model.predict_proba_one


def test_copies_clones_and_successors():
    model, rows = CorrectedClassifier(naive_bayes.GaussianNB(), sets=0.9), segments(200)
    for x, y in rows[:100]:
        model.learn_one(x, y)
    again = pickle.loads(pickle.dumps(model))
    assert model.clone().prediction_sets is None
    assert model.clone().sets == 0.9
    after = model.successor(naive_bayes.GaussianNB())
    empty = PredictionSets(model.corrector.classes, 0.1)
    assert after.prediction_sets.to_bytes() == empty.to_bytes()
    for x, y in rows[100:]:
        model.learn_one(x, y)
        again.learn_one(x, y)
        after.learn_one(x, y)
    assert model.prediction_sets.to_bytes() == again.prediction_sets.to_bytes()
    assert len(after.predict_set_one(rows[0][0])) >= 1


@pytest.mark.parametrize("sets", [0, 1, 90, "0.9", math.nan, True])
def test_what_is_no_share_is_refused_at_once(sets):
    with pytest.raises(ValueError, match=r"sets: .*expected the share that sets promise"):
        CorrectedClassifier(naive_bayes.GaussianNB(), sets=sets)


def test_without_sets():
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    model.learn_one({"u": 1.0}, "a")
    assert model.prediction_sets is None
    with pytest.raises(ValueError, match="predict_set_one: nothing was promised; make it with"):
        model.predict_set_one({"u": 1.0})


def test_a_pickle_of_before_there_were_sets():
    model, rows = CorrectedClassifier(naive_bayes.GaussianNB(), half_life=300), segments(100)
    for x, y in rows:
        model.learn_one(x, y)
    state = dict(model.__dict__)
    for name in ("sets", "_sets", "label_noise"):
        del state[name]
    old = CorrectedClassifier.__new__(CorrectedClassifier)
    old.__setstate__(state)
    assert (old.sets, old.prediction_sets, old.label_noise, old.half_life) == (None, None, 0, 300)
    assert old.predict_proba_one(rows[0][0]) == model.predict_proba_one(rows[0][0])
    old.learn_one(*rows[0])
    assert old.clone().half_life == 300
