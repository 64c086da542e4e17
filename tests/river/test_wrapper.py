"""The river wrapper, row by row: river's contract, a corrector by hand, the undefined."""

import copy
import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from river import (
    active,
    bandit,
    base,
    checks,
    compat,
    compose,
    drift,
    ensemble,
    evaluate,
    feature_extraction,
    forest,
    imblearn,
    linear_model,
    metrics,
    model_selection,
    multiclass,
    naive_bayes,
    preprocessing,
    stream,
    tree,
)
from sklearn.ensemble import RandomForestClassifier

from stream_can import Corrector
from stream_can.river import (
    CorrectedClassifier,
    CorrectedMultiLabelClassifier,
    CorrectedSparseClassifier,
    FrozenClassifier,
)
from tests.river.rows import phishing, segments

SCALED_SOFTMAX = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()

CLASSIFIERS = [
    naive_bayes.GaussianNB(),
    tree.HoeffdingTreeClassifier(),
    multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    linear_model.SoftmaxRegression(),
    preprocessing.MinMaxScaler() | naive_bayes.MultinomialNB(),
]


def says(p):
    """A wrapper around a function that predicts what `p` holds at the time."""
    return CorrectedClassifier(FrozenClassifier(lambda x: dict(p)))


def is_distribution(p):
    return math.isclose(sum(p.values()), 1, rel_tol=1e-9) and all(0 <= v <= 1 for v in p.values())


# ---- river's contract


@pytest.mark.parametrize(
    "model",
    [
        *(
            pytest.param(CorrectedClassifier(classifier), marks=pytest.mark.release)
            for classifier in CLASSIFIERS
        ),
        *(CorrectedClassifier(**params) for params in CorrectedClassifier._unit_test_params()),
        pytest.param(
            preprocessing.MinMaxScaler() | CorrectedClassifier(naive_bayes.MultinomialNB()),
            marks=pytest.mark.release,
        ),
        CorrectedClassifier(
            FrozenClassifier(linear_model.LogisticRegression()), train_counts={False: 5, True: 3}
        ),
        *(FrozenClassifier(**params) for params in FrozenClassifier._unit_test_params()),
    ],
    ids=str,
)
def test_river_checks(model):
    failed, passed = [], 0
    for check in checks.yield_checks(model):
        try:
            check(model.clone())
            passed += 1
        except Exception as error:
            failed.append(f"{check.__name__}: {error!r}")
    assert not failed
    assert passed >= 35


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=str)
def test_predicting_changes_nothing(classifier):
    model = CorrectedClassifier(classifier.clone())
    rows = phishing(60)
    model.classifier.predict_proba_one(rows[0][0])  # a pipeline of river keeps its plan, once
    pickled = pickle.dumps(model)
    model.predict_proba_one(rows[0][0])
    assert pickle.dumps(model) == pickled
    for x, y in rows:
        model.learn_one(x, y)
        pickled = pickle.dumps(model)
        for features in (x, {}, dict(itertools.islice(x.items(), 3))):
            model.predict_proba_one(features)
            model.predict_one(features)
        assert pickle.dumps(model) == pickled


def test_predicting_a_class_that_is_not_learned_yet_changes_nothing():
    p = {"a": 0.7, "b": 0.3}
    model = says(p)
    model.learn_one({}, "a")
    p["c"] = 1.0  # a, b and c: 0.35, 0.15, 0.5
    before = model.corrector.to_bytes()
    out = model.predict_proba_one({})
    assert model.corrector.to_bytes() == before
    assert out["c"] == pytest.approx(0.5)
    corrected = model.corrector.correct_one([0.7, 0.3])
    assert [out["a"], out["b"]] == pytest.approx(corrected / 2)


def test_clone_is_untrained_and_copies_continue_bit_for_bit():
    model = CorrectedClassifier(SCALED_SOFTMAX.clone(), half_life=100, paths=("raw", "vector+can"))
    rows = segments(200)
    for x, y in rows[:100]:
        model.learn_one(x, y)
    clone = model.clone()
    assert clone.corrector is None
    assert clone.predict_proba_one(rows[0][0]) == {}
    assert clone.half_life == 100
    assert clone.paths == ("raw", "vector+can")
    for x, y in rows[:100]:
        clone.learn_one(x, y)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone]
    for x, y in rows[100:]:
        expected = model.predict_proba_one(x)
        for other in copies:
            assert other.predict_proba_one(x) == expected
        for each in (model, *copies):
            each.learn_one(x, y)


def test_clone_with_new_settings():
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    clone = model.clone({"threshold": 0.5, "classifier": linear_model.LogisticRegression()})
    assert clone.threshold == 0.5
    assert isinstance(clone.classifier, linear_model.LogisticRegression)


def test_a_new_version_of_the_classifier_starts_from_what_was_learned():
    old = CorrectedClassifier(naive_bayes.GaussianNB(), half_life=300, segments=["ip_in_url"])
    rows = phishing(900)
    for x, y in rows[:600]:
        old.learn_one(x, y)
    before = old.corrector.to_bytes()
    version = linear_model.LogisticRegression()
    new = old.successor(version)
    assert new.classifier is version
    assert new.corrector.to_bytes() == old.corrector.successor().to_bytes()
    assert old.successor(version, 0.5).corrector.n_labels == 300
    assert new.half_life == 300
    for x, y in rows[600:]:
        assert is_distribution(new.predict_proba_one(x))
        new.learn_one(x, y)
    assert version.intercept != 0
    assert old.corrector.to_bytes() == before
    with pytest.raises(ValueError, match="discount: 2"):
        old.successor(version, 2)
    assert CorrectedClassifier(naive_bayes.GaussianNB()).successor(version).corrector is None


def test_settings_reach_the_corrector():
    settings = {
        "half_life": 77.0,
        "uncertainty": "margin",
        "k": 4,
        "threshold": 0.4,
        "pseudo_count": 2.0,
        "prior_strength": 9.0,
        "label_noise": 0.1,
    }
    model = CorrectedClassifier(linear_model.LogisticRegression(), paths=["can"], **settings)
    model.learn_one({"u": 1.0}, True)
    assert model.corrector.settings == settings
    assert model.corrector.paths == ("can",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"half_life": 0}, "half_life"),
        ({"threshold": 2}, "threshold"),
        ({"uncertainty": "gut feeling"}, "uncertainty"),
        ({"paths": ["tensor"]}, "tensor"),
        ({"train_counts": [3, 4]}, "train_counts"),
        ({"train_counts": {}}, "train_counts"),
        ({"train_counts": {"a": 0.5, "b": 0.5}}, "frequencies"),
    ],
)
def test_settings_out_of_range_are_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        CorrectedClassifier(naive_bayes.GaussianNB(), **settings)


# ---- equal to a corrector driven by hand


class ByHand:
    """The same loop plainly, for classifiers that name every class they were taught."""

    def __init__(self, classifier):
        self.classifier, self.corrector = classifier, None

    def row(self, p):
        return [p.get(name, 0.0) for name in self.corrector.classes]

    def predict_proba_one(self, x):
        p = self.classifier.predict_proba_one(x)
        if self.corrector is None:
            return p
        return dict(
            zip(self.corrector.classes, self.corrector.correct_one(self.row(p)), strict=True)
        )

    def learn_one(self, x, y):
        p = self.classifier.predict_proba_one(x)
        if self.corrector is None:
            self.corrector = Corrector([*p, y] if y not in p else list(p))
            new = y not in p
        elif new := y not in self.corrector.classes:
            self.corrector._add_class(y)
        if p:
            self.corrector.observe_one(self.row(p))
        self.corrector.learn_one(self.row(p) if p and not new else None, y)
        self.classifier.learn_one(x, y)


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
def test_equals_a_corrector_driven_by_hand(classifier, rows, delay):
    model, reference = CorrectedClassifier(classifier.clone()), ByHand(classifier.clone())
    seen = 0
    for _, x, y in stream.simulate_qa(rows, None, delay):
        if y is None:
            expected = reference.predict_proba_one(x)
            assert model.predict_proba_one(x) == expected
            assert not expected or is_distribution(expected)
            seen += len(expected) > 1
        else:
            model.learn_one(x, y)
            reference.learn_one(x, y)
    assert seen > 300
    assert model.corrector.to_bytes() == reference.corrector.to_bytes()


def test_a_frozen_classifier_learns_in_the_corrector_alone():
    trained = SCALED_SOFTMAX.clone()
    rows = segments(600)
    for x, y in rows[:200]:
        trained.learn_one(x, y)
    counts = {name: 20 + i for i, name in enumerate(sorted({y for _, y in rows}))}
    model = CorrectedClassifier(FrozenClassifier(trained), train_counts=counts)
    before = pickle.dumps(trained)
    reference = Corrector(list(counts), train_counts=list(counts.values()))
    for x, y in rows[200:]:
        p = trained.predict_proba_one(x)
        row = [p[name] for name in counts]
        expected = dict(zip(counts, reference.correct_one(row), strict=True))
        assert model.predict_proba_one(x) == expected
        model.learn_one(x, y)
        reference.observe_one(row)
        reference.learn_one(row, y)
    assert pickle.dumps(trained) == before
    assert model.corrector.to_bytes() == reference.to_bytes()


def test_a_clone_of_a_frozen_classifier_stays_trained():
    trained = linear_model.LogisticRegression()
    for x, y in phishing(100):
        trained.learn_one(x, y)
    model = CorrectedClassifier(FrozenClassifier(trained), train_counts={True: 3, False: 4})
    clone = model.clone()
    x = phishing(1)[0][0]
    assert clone.classifier.predict_proba_one(x) == trained.predict_proba_one(x)
    assert clone.classifier.model is not trained
    model.learn_one(x, True)
    assert clone.corrector.n_labels == 0


def test_frozen_scikit_learn():
    rows = segments(500)
    names = list(rows[0][0])
    X = np.array([[x[name] for name in names] for x, _ in rows])
    y = [y for _, y in rows]
    forest = RandomForestClassifier(20, random_state=0).fit(X[:300], y[:300])
    by_compat = FrozenClassifier(compat.SKL2RiverClassifier(forest, list(forest.classes_)))
    by_function = FrozenClassifier(
        lambda x: dict(
            zip(
                forest.classes_,
                forest.predict_proba([[x[n] for n in names]])[0].tolist(),
                strict=True,
            )
        )
    )
    counts = {name: y[:300].count(name) for name in forest.classes_.tolist()}
    models = [CorrectedClassifier(f, train_counts=counts) for f in (by_compat, by_function)]
    for x, label in rows[300:380]:
        first, second = (model.predict_proba_one(x) for model in models)
        assert first == second
        assert is_distribution(first)
        for model in models:
            model.learn_one(x, label)
    assert models[0].corrector.n_labels == 80


def test_frozen_wants_a_classifier_or_a_function():
    with pytest.raises(TypeError, match="SKL2RiverClassifier"):
        FrozenClassifier(RandomForestClassifier())


# ---- inside the rest of river


@pytest.mark.parametrize("delay", [None, 1, 40])
def test_progressive_validation(delay):
    rows = segments()
    model = CorrectedClassifier(SCALED_SOFTMAX.clone())
    metric = metrics.CrossEntropy() + metrics.Accuracy()
    evaluate.progressive_val_score(iter(rows), model, metric, delay=delay)
    reference, served = ByHand(SCALED_SOFTMAX.clone()), {}
    expected = metrics.CrossEntropy() + metrics.Accuracy()
    for i, x, y in stream.simulate_qa(rows, None, delay):
        if y is None:
            served[i] = reference.predict_proba_one(x)
            continue
        if served[i]:
            expected.update(y, served[i])
        reference.learn_one(x, y)
    assert metric.get() == expected.get()


def test_outside_and_inside_of_a_pipeline_are_the_same():
    outside = CorrectedClassifier(SCALED_SOFTMAX.clone())
    inside = preprocessing.StandardScaler() | CorrectedClassifier(linear_model.SoftmaxRegression())
    assert isinstance(inside, base.Classifier)
    assert inside._multiclass
    for i, (x, y) in enumerate(segments(200)):
        if i:  # a scaler inside a pipeline learns a row before the classifier predicts it
            assert set(inside.predict_proba_one(x)) == set(outside.predict_proba_one(x))
        inside.learn_one(x, y)
        outside.learn_one(x, y)
    assert inside["CorrectedClassifier"].corrector.n_labels == 200
    assert "CorrectedClassifier" in inside._repr_html_()
    assert inside.debug_one(x)


def corrected():
    return CorrectedClassifier(SCALED_SOFTMAX.clone())


WRAPPERS = {
    "bagging": lambda: ensemble.BaggingClassifier(corrected(), n_models=3, seed=1),
    "adwin bagging": lambda: ensemble.ADWINBaggingClassifier(corrected(), n_models=3, seed=1),
    "voting": lambda: ensemble.VotingClassifier([corrected(), naive_bayes.GaussianNB()]),
    "bandit": lambda: model_selection.BanditClassifier(
        [corrected(), corrected()],
        metric=metrics.Accuracy(),
        policy=bandit.EpsilonGreedy(0.1, seed=1),
    ),
    "halving": lambda: model_selection.SuccessiveHalvingClassifier(
        [corrected() for _ in range(4)], metric=metrics.Accuracy(), budget=1000
    ),
    "drift": lambda: drift.DriftRetrainingClassifier(corrected()),
    "sampler outside": lambda: imblearn.RandomSampler(
        corrected(), desired_dist={y: 1 / 7 for _, y in segments()}, seed=1
    ),
    "sampler inside": lambda: CorrectedClassifier(
        imblearn.RandomSampler(
            SCALED_SOFTMAX.clone(), desired_dist={y: 1 / 7 for _, y in segments()}, seed=1
        )
    ),
    "one vs rest": lambda: (
        preprocessing.StandardScaler()
        | multiclass.OneVsRestClassifier(CorrectedClassifier(linear_model.LogisticRegression()))
    ),
    "forest": lambda: CorrectedClassifier(forest.ARFClassifier(n_models=3, seed=1)),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_works_with_river_s_other_wrappers(name):
    metric = metrics.Accuracy()
    evaluate.progressive_val_score(segments(), WRAPPERS[name](), metric)
    assert metric.get() > 0.55  # one class in seven by chance


def test_active_learning_goes_outside():
    model = active.EntropySampler(
        CorrectedClassifier(preprocessing.StandardScaler() | linear_model.LogisticRegression()),
        seed=1,
    )
    metric = metrics.Accuracy()
    evaluate.progressive_val_score(phishing(), model, metric)
    assert metric.get() > 0.8
    assert 20 < model.classifier.corrector.n_labels < 400


def test_bagging_makes_correctors_of_its_own():
    model = ensemble.BaggingClassifier(corrected(), n_models=3, seed=1)
    for x, y in segments(200):
        model.learn_one(x, y)
    states = {each.corrector.to_bytes() for each in model}
    assert len(states) == 3
    assert all(each.corrector.n_labels > 100 for each in model)


class Recorder(base.Classifier):
    """Notes the keyword arguments that it was called with."""

    def __init__(self):
        self.learned, self.predicted = [], []

    def predict_proba_one(self, x, **kwargs):
        self.predicted.append(kwargs)
        return {False: 0.5, True: 0.5}

    def learn_one(self, x, y, **kwargs):
        self.learned.append((x, y, kwargs))


def test_keyword_arguments_pass_through():
    classifier = Recorder()
    model = CorrectedClassifier(classifier)
    model.predict_proba_one({}, t=1)
    model.predict_one({}, t=2)
    model.learn_one({"u": 1}, True, w=3.0, t=4)
    assert classifier.predicted == [{"t": 1}, {"t": 2}, {"t": 4}]
    assert classifier.learned == [({"u": 1}, True, {"w": 3.0, "t": 4})]


def test_weights_reach_the_classifier():
    plain, model = linear_model.LogisticRegression(), linear_model.LogisticRegression()
    rows = phishing(50)
    evaluate.progressive_val_score(
        [(x, y, {"w": 3.0}) for x, y in rows], CorrectedClassifier(model), metrics.LogLoss()
    )
    for x, y in rows:
        plain.learn_one(x, y, w=3.0)
    assert model.weights == plain.weights


def test_a_weight_is_the_correctors_too():
    weights = np.random.default_rng(0).uniform(0.01, 100, 60).tolist()
    counts = {"a": 3, "b": 4}
    frozen = FrozenClassifier(lambda x: {"a": x["u"], "b": 1 - x["u"]})
    model = CorrectedClassifier(frozen, train_counts=counts)
    bare = Corrector([*counts], train_counts=[*counts.values()])
    for i, weight in enumerate(weights):
        u = i / 60
        model.learn_one({"u": u}, "ab"[i % 2], w=weight)
        bare.observe_one([u, 1 - u])
        bare.learn_one([u, 1 - u], "ab"[i % 2], weight=weight)
    model.learn_one({"u": math.nan}, "b", w=7)  # teaches the class mix
    model.learn_one({"u": 1.0}, "c", w=8)  # and so does a class that nobody had named
    bare.learn_one(None, "b", weight=7)
    bare._add_class("c")
    bare.observe_one([1, 0, 0])
    bare.learn_one(None, "c", weight=8)
    assert model.corrector.to_bytes() == bare.to_bytes()
    for w in (0, 101, "2"):
        with pytest.raises(ValueError, match=r"weight: .* expected a number from 0.01 to 100"):
            model.learn_one({"u": 0.5}, "d", w=w)
    assert model.corrector.to_bytes() == bare.to_bytes()


# ---- classes come and go


def test_a_class_that_appears_later_loses_nothing():
    p = {"a": 0.9, "b": 0.1}
    model = says(p)
    for i in range(400):  # overconfident: right 7 times in 10
        model.learn_one({}, "a" if i % 10 < 7 else "b")
    before = model.predict_proba_one({})
    learned = model.corrector.weights, model.corrector.temperature
    assert before["a"] == pytest.approx(0.7, abs=0.05)
    model.learn_one({}, "c")
    assert (model.corrector.weights, model.corrector.temperature) == learned
    after = model.predict_proba_one({})
    assert list(after) == ["a", "b", "c"]
    assert is_distribution(after)
    # What nothing is known of has the floor for p, which a temperature of two or three lifts.
    assert 0 < after["c"] < 0.1
    known = after["a"] + after["b"]
    assert after["a"] / known == pytest.approx(before["a"], abs=0.01)


def test_the_first_label_of_an_unheard_class_teaches_the_prior_alone():
    model = says({"a": 1.0})
    model.learn_one({}, "b")
    assert model.corrector.prior[1] > model.corrector.prior[0]
    assert model.corrector.temperature == 1
    model.learn_one({}, "b")  # now the classifier could have known
    assert model.corrector.temperature > 1


def test_a_class_that_vanishes_keeps_its_place_and_loses_its_mass():
    model = CorrectedClassifier(naive_bayes.GaussianNB(), half_life=50)
    rng = np.random.default_rng(0)
    for i in range(600):
        y = "abc"[i % 3] if i < 300 else "ab"[i % 2]
        model.learn_one({"u": rng.normal("abc".index(y))}, y)
        if i == 299:
            prior = dict(zip(model.corrector.classes, model.corrector.prior, strict=True))
    later = dict(zip(model.corrector.classes, model.corrector.prior, strict=True))
    assert prior["c"] > 0.3
    assert later["c"] < 0.05
    out = model.predict_proba_one({"u": 2.0})
    assert set(out) == {"a", "b", "c"}
    assert is_distribution(out)


def test_label_types():
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    for x, y in phishing(20):
        model.learn_one(x, np.bool_(y))
    assert set(model.corrector.classes) == {False, True}
    assert all(type(name) is bool for name in model.predict_proba_one(x))
    for bad in ((1, 2), float("nan")):
        with pytest.raises(ValueError, match="expected str, int, float or bool"):
            model.learn_one(x, bad)
    assert model.corrector.n_labels == 20


@pytest.mark.parametrize("bad", [2**70, "caf\udce9", type("Name", (str,), {})("b")])
def test_a_label_that_cannot_be_saved_is_refused_and_changes_nothing(bad):
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    rows = phishing(20)
    for x, y in rows:
        model.learn_one(x, y)
    before = pickle.dumps(model)
    X = pd.DataFrame([x for x, _ in rows])
    with pytest.raises(ValueError, match="classes: "):
        model.learn_one(rows[0][0], bad)
    with pytest.raises(ValueError, match="classes: "):
        model.learn_many(X, pd.Series([True] * 19 + [bad], dtype=object))
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="classes: "):
        says({"a": 0.5, bad: 0.5}).learn_one({}, "a")
    new = says({})
    with pytest.raises(ValueError, match="classes: "):
        new.learn_one({}, bad)
    assert new.corrector is None


# ---- rows without a label, features or a usable prediction


def test_a_row_without_a_label_is_observed_only():
    model = CorrectedClassifier(linear_model.LogisticRegression())
    for x, y in phishing(50):
        model.learn_one(x, y)
    classifier, prior = pickle.dumps(model.classifier), model.corrector.prior
    before = model.corrector.n_predictions
    model.learn_one(x, None)
    model.learn_one(x)
    assert model.corrector.n_predictions == before + 2
    assert model.corrector.n_labels == 50
    assert pickle.dumps(model.classifier) == classifier
    assert (model.corrector.prior == prior).all()


def test_observing_before_any_class():
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    model.learn_one({"u": 1.0}, None)
    assert model.corrector is None
    assert model.predict_proba_one({"u": 1.0}) == {}
    assert model.predict_one({"u": 1.0}) is None


def test_nothing_known_yet():
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    assert model.predict_proba_one({}) == {}
    assert model.predict_one({}) is None
    model.learn_one({}, "a")
    assert model.predict_proba_one({}) == {"a": 1.0}


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=str)
def test_missing_features(classifier):
    model = CorrectedClassifier(classifier.clone())
    for i, (x, y) in enumerate(phishing(200)):
        kept = dict(list(x.items())[: i % 10]) if i else x  # at times none
        out = model.predict_proba_one(kept)
        assert not out or is_distribution(out)
        model.learn_one(kept, y)
    assert set(model.predict_proba_one({})) == {False, True}


SILENT = {
    "nan": {"a": math.nan, "b": 0.5},
    "zeros": {"a": 0.0, "b": 0.0},
    "empty": {},
    "infinite": {"a": math.inf, "b": 0.0},
    "negative": {"a": -0.5, "b": 1.5},
}


@pytest.mark.parametrize("name", SILENT)
def test_a_prediction_that_says_nothing(name):
    p = {"a": 0.8, "b": 0.2}
    model = says(p)
    for i in range(100):
        model.learn_one({}, "b" if i % 4 else "a")
    p.clear()
    p.update(SILENT[name])
    prior = dict(zip(model.corrector.classes, model.corrector.prior, strict=True))
    assert model.predict_proba_one({}) == prior
    assert model.predict_one({}) == "b"
    before, explained = model.corrector.n_predictions, model.corrector.weights
    model.learn_one({}, "b")
    assert model.corrector.n_predictions == before  # nothing to observe
    assert model.corrector.weights == explained  # nothing to weigh
    assert model.corrector.n_labels == 101  # the prior learned
    assert model.corrector.prior[1] > prior["b"]


@pytest.mark.parametrize("name", SILENT)
def test_a_prediction_that_says_nothing_before_any_label(name):
    p = SILENT[name]
    model = says(p)
    assert model.predict_proba_one({}) == dict.fromkeys(p, 0.5)
    model.learn_one({}, "a")
    assert is_distribution(model.predict_proba_one({}))


def test_scores_that_do_not_sum_to_one_are_divided_by_their_sum():
    scores, p = {"a": 6.0, "b": 2.0}, {"a": 0.75, "b": 0.25}
    first, second = says(scores), says(p)
    assert first.predict_proba_one({}) == p
    for y in "aabba":
        first.learn_one({}, y)
        second.learn_one({}, y)
    assert first.predict_proba_one({}) == second.predict_proba_one({})
    assert first.corrector.to_bytes() == second.corrector.to_bytes()


@pytest.mark.parametrize(
    "wrapper",
    [CorrectedClassifier, CorrectedMultiLabelClassifier, CorrectedSparseClassifier],
)
def test_a_classifier_without_probabilities_is_named(wrapper):
    class Votes(base.Classifier):
        def learn_one(self, x, y):
            pass

    with pytest.raises(NotImplementedError, match="Votes has no probabilities"):
        wrapper(Votes()).predict_proba_one({})


def test_text():
    documents = [("good film", True), ("bad film", False), ("good plot", True)] * 20
    model = CorrectedClassifier(
        compose.Pipeline(
            feature_extraction.BagOfWords(),
            naive_bayes.MultinomialNB(),
        )
    )
    for x, y in documents:
        model.learn_one(x, y)
    assert model.predict_one("good") is True


def test_a_weight_for_a_classifier_that_takes_none_teaches_nobody():
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    for i in range(10):
        model.learn_one({"u": i / 10}, "ab"[i % 2])
    before = model.corrector.to_bytes()
    with pytest.raises(TypeError, match=r"w: GaussianNB.learn_one takes no weight; leave w out"):
        model.learn_one({"u": 0.5}, "a", w=0.5)
    with pytest.raises(TypeError, match="takes no weight"):
        model.learn_many(pd.DataFrame({"u": [0.5]}), pd.Series(["a"]), w=0.5)
    assert model.corrector.to_bytes() == before
