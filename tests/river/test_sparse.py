"""The river wrapper of sparse rows: what it makes of a stream is what a plain loop makes."""

from __future__ import annotations

import copy
import doctest
import math
import pickle

import numpy as np
import pytest
from river import checks, linear_model, metrics, naive_bayes

from stream_can.river import CorrectedSparseClassifier, FrozenClassifier, sparse
from stream_can.sparse import SparseCorrector
from tests.river.rows import segments

pytestmark = pytest.mark.fast

CLASSES = [f"class {i}" for i in range(30)]


def frozen(**settings):
    return CorrectedSparseClassifier(FrozenClassifier(lambda x: x["p"]), **settings)


def stream(n, seed=0):
    """Rows of 30 classes that are too sure, every seventh without a label."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        q = rng.dirichlet(np.full(30, 0.3))
        y = rng.choice(30, p=q)
        p = q**1.5 / (q**1.5).sum()
        yield {"p": dict(zip(CLASSES, p.tolist(), strict=True))}, None if i % 7 == 6 else CLASSES[y]


def test_it_is_the_plain_loop():
    counts = dict.fromkeys(CLASSES, 9)
    settings = {"max_classes": 40, "half_life": 300.0, "train_counts": counts}
    model, hand = frozen(listed=5, **settings), SparseCorrector(**settings)
    for x, y in stream(400):
        likeliest = sorted(x["p"], key=lambda name: -x["p"][name])[:5]
        row = {name: x["p"][name] for name in likeliest}
        better, rest = hand.correct_one(row)
        found = model.predict_proba_one(x)
        assert list(found) == CLASSES
        assert {name: found[name] for name in better} == pytest.approx(better, rel=1e-12)
        others = sum(p for name, p in found.items() if name not in better)
        assert others == pytest.approx(rest, rel=1e-9)
        hand.process_one(row)
        if y is not None:
            hand.learn_one(row, y)
        model.learn_one(x, y)
    assert model.corrector.to_bytes() == hand.to_bytes()
    assert copy.deepcopy(model).corrector.to_bytes() == hand.to_bytes()
    assert pickle.loads(pickle.dumps(model.corrector)).to_bytes() == hand.to_bytes()


def test_the_rest_is_shared_by_the_classifier_and_by_labels():
    model = frozen(listed=1)
    p = {"a": 0.6, "b": 0.3, "c": 0.1, "d": 0.0}
    for y in "aaad":
        model.learn_one({"p": p}, y)
    found = model.predict_proba_one({"p": p})
    rest = found["b"] + found["c"] + found["d"]
    tails = {name: model.corrector.tail(name, ["a"], 1.0) for name in "bcd"}
    for name, share in {"b": 0.75, "c": 0.25, "d": 0.0}.items():
        expected = share / 2 + tails[name] / sum(tails.values()) / 2
        assert found[name] / rest == pytest.approx(expected)
    assert found["d"] > found["c"] > 0


@pytest.mark.parametrize(
    "model",
    [
        *(CorrectedSparseClassifier(**p) for p in CorrectedSparseClassifier._unit_test_params()),
        CorrectedSparseClassifier(
            FrozenClassifier(linear_model.LogisticRegression()),
            listed=1,
            train_counts={False: 5, True: 3},
        ),
    ],
    ids=str,
)
def test_river_checks(model):
    passed = 0
    for check in checks.yield_checks(model):
        check(model.clone())
        passed += 1
    assert passed >= 35


def test_it_helps_a_real_classifier_of_which_three_classes_are_listed():
    found = []
    for make in (lambda one: one, lambda one: CorrectedSparseClassifier(one, listed=3)):
        model, metric = make(naive_bayes.GaussianNB()), metrics.CrossEntropy()
        for x, y in segments(800):
            p = model.predict_proba_one(x)
            metric.update(y, {y: 1e-6} | p)
            model.learn_one(x, y)
        found.append(metric.get())
    assert found[1] < found[0] - 1


def test_classes_that_are_written_alike_are_one_and_keep_their_name():
    model = frozen()
    assert model.predict_proba_one({"p": {}}) == {}
    assert model.predict_proba_one({"p": {1: 0.5, "x": 0.5}}).keys() == {1, "x"}
    model.learn_one({"p": {"True": 0.5, 7: 0.5}}, True)  # naive Bayes of river in batches
    assert [type(name) for name in model.predict_proba_one({"p": {"True": 1.0}})] == [bool, int]
    assert model.corrector.names == ["True", "7"]
    assert list(model.predict_proba_one({"p": {"7": 0.2, "later": 0.8}})) == [True, 7, "later"]


@pytest.mark.parametrize("p", [{}, {"a": math.nan}, {"a": -1.0}, {"a": 0.0}, {"a": math.inf}])
def test_a_prediction_that_says_nothing_is_answered_with_the_mix(p):
    model = frozen()
    for y in "aab":
        model.learn_one({"p": {"a": 0.5, "b": 0.5}}, y)
    before = model.corrector.n_predictions
    found = model.predict_proba_one({"p": p})
    assert found["a"] > found["b"] > 0
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    model.learn_one({"p": p}, "b")
    assert (model.corrector.n_predictions, model.corrector.n_labels) == (before, 4)


def test_predicting_changes_nothing_and_what_is_wrong_neither():
    model = frozen(listed=2, max_classes=3)
    model.learn_one({"p": {"a": 0.5, "b": 0.5}}, "a")
    before = pickle.dumps(model.corrector), dict(model._classes)
    model.predict_proba_one({"p": {"c": 0.7, "a": 0.3}})
    with pytest.raises(ValueError, match="classes: "):
        model.learn_one({"p": {"a": 0.5, 1j: 0.5}}, "a")
    assert (pickle.dumps(model.corrector), model._classes) == before
    clone = model.clone()
    assert (clone.corrector.n_classes, clone.listed, clone.max_classes) == (0, 2, 3)


def test_classes_beyond_max_classes_are_left_out_and_the_classifier_learns_them():
    """A loop over a stream goes on."""
    rng, n = np.random.default_rng(0), 200
    model = CorrectedSparseClassifier(naive_bayes.GaussianNB(), listed=2, max_classes=3)
    plain = naive_bayes.GaussianNB()
    for y in map(int, rng.integers(0, 6, n)):
        x = {"x": y + rng.normal()}
        found = model.predict_proba_one(x)
        assert len(found) <= 3
        assert sum(found.values()) == pytest.approx(1 if found else 0, abs=1e-12)
        model.learn_one(x, y)
        plain.learn_one(x, y)
    assert model.classifier.predict_proba_one(x) == plain.predict_proba_one(x)
    assert len(plain.predict_proba_one(x)) == 6
    corrector = model.corrector
    assert corrector.n_classes == len(model._classes) == 3
    assert 0 < model.labels_left_out == n - corrector.n_labels


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listed": 0}, "listed: 0, expected a number from 1 to 128"),
        ({"listed": 2.5}, r"listed: 2\.5"),
        ({"train_counts": [3]}, "train_counts: expected"),
        ({"half_life": 0}, "half_life"),
        ({"max_classes": 0}, "max_classes"),
        ({"memory_mb": 1}, "give more memory_mb"),
    ],
)
def test_settings_are_refused_at_once(settings, said):
    with pytest.raises(ValueError, match=said):
        frozen(**settings)


def test_the_docstring_is_true():
    assert doctest.testmod(sparse).failed == 0
