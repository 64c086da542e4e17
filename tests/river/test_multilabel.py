"""The river wrapper of multilabel rows: what it makes of a stream is what a plain loop makes."""

from __future__ import annotations

import copy
import doctest
import itertools
import pickle

import numpy as np
import pytest
from river import datasets, linear_model, metrics, multioutput, preprocessing

from stream_can.multilabel import LabelScores, MultiLabelCorrector
from stream_can.river import CorrectedMultiLabelClassifier, FrozenClassifier, multilabel

pytestmark = pytest.mark.fast

LABELS = ["a", "b", "c"]


def frozen(**settings):
    return CorrectedMultiLabelClassifier(FrozenClassifier(lambda x: x["p"]), **settings)


def stream(n, seed=0):
    """Scores that are too sure, and labels of which every fourth is not known."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        p = rng.beta(0.5, 1, 3)
        y = rng.random(3) < p**0.5 / (p**0.5 + (1 - p) ** 0.5)
        known = rng.random(3) > 0.25
        labels = {name: bool(y[k]) for k, name in enumerate(LABELS) if known[k]}
        yield {"p": dict(zip(LABELS, p.tolist(), strict=True))}, None if i % 7 == 6 else labels


def test_it_is_the_plain_loop():
    settings = {"train_counts": {"a": 30, "b": 20, "c": 5}, "train_rows": 60, "half_life": 300.0}
    model, hand = frozen(**settings), MultiLabelCorrector(LABELS, **settings)
    for x, y in stream(500):
        row = [*x["p"].values()]
        p = hand.correct_one(row).tolist()
        assert model.predict_proba_one(x) == {
            name: {False: 1 - q, True: q} for name, q in zip(LABELS, p, strict=True)
        }
        assert [*model.decide_one(x).values()] == hand.decide(p).tolist()
        assert [*model.predict_one(x).values()] == [q > 0.5 for q in p]
        hand.observe_one(row)
        if y:
            hand.learn_one(row, y)
        model.learn_one(x, y)
    assert model.corrector.to_bytes() == hand.to_bytes()
    assert pickle.loads(pickle.dumps(model.corrector)).to_bytes() == hand.to_bytes()
    assert copy.deepcopy(model).corrector.to_bytes() == hand.to_bytes()


def test_labels_appear_as_they_are_named():
    model = frozen()
    assert model.predict_proba_one({"p": {}}) == {}
    model.learn_one({"p": {}}, {"b": True})
    assert model.corrector.labels == ("b",)
    assert model.predict_proba_one({"p": {}})["b"][True] == pytest.approx((1 + 10) / 21, rel=1e-3)
    for _ in range(50):
        model.learn_one({"p": {"b": 0.9, "a": {True: 1, False: 3}}}, {"b": False})
    assert model.corrector.labels == ("b", "a")
    assert model.corrector.label_counts[0, 1] == 0
    before = model.corrector.label_counts[0, 0]
    model.learn_one({"p": {"a": 0.2}}, {"b": False, "new": True})
    assert model.corrector.labels == ("b", "a", "new")
    assert model.corrector.label_counts[0, 0] == pytest.approx(before + 1, rel=1e-3)
    assert 0.5 < model.predict_proba_one({"p": {"a": 0.2}})["new"][True] < 0.6
    assert model.predict_proba_one({"p": {"later": 0.3, "odd": {}}}).keys() == {
        "b", "a", "new", "later", "odd"
    }  # fmt: skip


def test_a_label_that_came_later_is_as_one_of_the_start():
    rows = [x for x, _ in stream(20)]
    whole, grown = MultiLabelCorrector(LABELS), MultiLabelCorrector(LABELS[:2])
    grown._add_labels(["c"])
    for one in (whole, grown):
        for x in rows:
            one.process_one([*x["p"].values()])
            one.learn_one([*x["p"].values()], {"c": True, "a": False})
    assert whole.to_bytes() == grown.to_bytes()
    counted = MultiLabelCorrector(["a"], train_counts=[3], train_rows=9)
    counted._add_labels(["b"])
    assert counted.train_shares.tolist() == [3.5 / 10, 0.5 / 10]


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        ({"a": {"red": 0.5}}, {}, "label 'a': the classifier predicts the value 'red'"),
        ({"a": 1.5}, {}, "label 'a': the classifier predicts 1.5, no probability"),
        ({"a": 0.5}, {"a": "yes"}, "y: 'a' is 'yes', expected True, False or None"),
        ({"a": 0.5}, {1 + 2j: True}, "1\\+2j"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_learns(x, y, said):
    model = frozen()
    model.learn_one({"p": {"a": 0.5}}, {"a": True})
    before = model.corrector.to_bytes()
    with pytest.raises(ValueError, match=said):
        model.learn_one({"p": x}, y)
    assert model.corrector.to_bytes() == before


def test_settings_are_refused_at_once():
    with pytest.raises(ValueError, match="train_rows"):
        frozen(train_counts={"a": 3})
    with pytest.raises(ValueError, match="train_counts: expected"):
        frozen(train_counts=[3], train_rows=5)
    with pytest.raises(ValueError, match="half_life"):
        frozen(half_life=0)


def test_a_successor_keeps_what_was_learned():
    model = frozen()
    for x, y in stream(300):
        model.learn_one(x, y)
    after = model.successor(FrozenClassifier(lambda x: x["p"]))
    assert after.corrector.to_bytes() == model.corrector.successor().to_bytes()
    assert frozen().successor(FrozenClassifier(lambda x: x["p"])).corrector is None


@pytest.mark.parametrize(
    "classifier",
    [
        multioutput.PerOutputClassifier(linear_model.LogisticRegression()),
        multioutput.ClassifierChain(linear_model.LogisticRegression()),
    ],
)
def test_it_helps_on_yeast(classifier):
    """2,417 genes, 14 functions; the data comes with river, in an order without runs."""
    rows = list(datasets.Yeast())
    np.random.default_rng(0).shuffle(rows)
    names, found = [*rows[0][1]], []
    for make in (lambda one: one, CorrectedMultiLabelClassifier):
        model, scores = make(classifier.clone()), LabelScores(14)
        for x, y in itertools.islice(rows, 1200):
            p = model.predict_proba_one(x)
            row = [p[name].get(True, 0.0) if p.get(name) else 0.5 for name in names]
            scores.add([row], [[y[name] for name in names]])
            model.learn_one(x, y)
        found.append(scores)
    assert found[1].log_loss < found[0].log_loss - 0.2
    assert found[1].ece < found[0].ece


def test_in_a_pipeline_with_river_s_metrics():
    found = []
    for make in (lambda one: one, CorrectedMultiLabelClassifier):
        classifier = multioutput.PerOutputClassifier(linear_model.LogisticRegression())
        model = preprocessing.StandardScaler() | make(classifier)
        metric = metrics.multioutput.MicroAverage(metrics.F1())
        for x, y in datasets.Yeast().take(300):
            metric.update(y, dict.fromkeys(y, False) | model.predict_one(x))
            model.learn_one(x, y)
        found.append(metric.get())
    assert found[1] > found[0] + 0.01, found


def test_the_docstring_is_true():
    assert doctest.testmod(multilabel).failed == 0
