"""The river wrapper, batch by batch: equal to the loop over rows, on pandas and polars frames."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import (
    compat,
    compose,
    feature_extraction,
    linear_model,
    multiclass,
    naive_bayes,
    preprocessing,
    tree,
)
from sklearn.linear_model import LogisticRegression

from stream_can.river import CorrectedClassifier, FrozenClassifier
from tests.river.rows import phishing, segments

KINDS = {"pandas": (pd.DataFrame, pd.Series), "polars": (pl.DataFrame, pl.Series)}

SCALED_SOFTMAX = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()

CLASSIFIERS = [
    naive_bayes.GaussianNB(),
    preprocessing.StandardScaler()
    | multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    tree.HoeffdingTreeClassifier(),  # these have no *_many of their own
    SCALED_SOFTMAX,
]


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def batches(rows, size):
    for start in range(0, len(rows), size):
        cut = rows[start : start + size]
        yield [x for x, _ in cut], [y for _, y in cut]


def rows_of(frame):
    """[{name of class: probability}] of a frame of either kind."""
    P = frame.to_numpy()
    return [dict(zip(map(str, frame.columns), row.tolist(), strict=True)) for row in P]


def spelled(p):
    return {str(name): value for name, value in p.items()}


def assert_same(many, one, tolerance):
    assert len(many) == len(one)
    for left, right in zip(many, one, strict=True):
        assert left == pytest.approx(spelled(right), abs=tolerance)


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=str)
@pytest.mark.parametrize("size", [1, 25])
def test_many_is_the_loop_over_one_with_the_classifier_frozen_in_the_batch(classifier, kind, size):
    frame, series = kind
    model, loop = CorrectedClassifier(classifier.clone()), CorrectedClassifier(classifier.clone())
    rows = segments(100 if size > 1 else 12)
    for X, y in batches(rows, size):
        many = rows_of(model.predict_proba_many(frame(X))) or [{}] * len(X)
        one = [loop.predict_proba_one(x) for x in X]
        assert_same(many, one, 1e-9)
        best = list(model.predict_many(frame(X)))
        assert best == [max(p, key=p.get) if p else None for p in one]

        model.learn_many(frame(X), series(y))
        before = pickle.loads(pickle.dumps(loop.classifier))
        for x, label in zip(X, y, strict=True):
            loop._teach(before.predict_proba_one(x), label)
        teach(loop.classifier, X, y, kind)
    assert model.corrector.classes == loop.corrector.classes
    assert model.corrector.n_labels == len(rows)
    assert model.corrector.prior == pytest.approx(loop.corrector.prior, abs=1e-12)


def teach(classifier, X, y, kind):
    """What river itself would learn from the batch."""
    last = list(getattr(classifier, "steps", {"": classifier}).values())[-1]
    if hasattr(last, "learn_many"):
        classifier.learn_many(kind[0](X), kind[1](y))
    else:
        for x, label in zip(X, y, strict=True):
            classifier.learn_one(x, label)


def test_predicting_many_changes_nothing(kind):
    frame, series = kind
    model = CorrectedClassifier(SCALED_SOFTMAX.clone())
    X, y = next(batches(segments(), 100))
    model.predict_proba_many(frame(X))
    assert model.corrector is None
    model.learn_many(frame(X), series(y))
    model.predict_proba_many(frame(X))  # a pipeline of river keeps its plan, once
    before = pickle.dumps(model)
    model.predict_proba_many(frame(X))
    model.predict_many(frame(X))
    assert pickle.dumps(model) == before


def test_the_frame_keeps_kind_index_and_names():
    model = CorrectedClassifier(linear_model.LogisticRegression())
    X, y = next(batches(phishing(), 50))
    index = [f"row {i}" for i in range(50)]
    model.learn_many(pd.DataFrame(X, index=index), pd.Series(y, index=index))
    out = model.predict_proba_many(pd.DataFrame(X, index=index))
    assert list(out.index) == index
    assert list(out.columns) == [False, True]
    assert list(model.predict_many(pd.DataFrame(X, index=index)).index) == index
    assert model.predict_proba_many(pl.DataFrame(X)).columns == ["False", "True"]
    assert model.predict_many(pl.DataFrame(X)).dtype == pl.Boolean


def test_empty_batches(kind):
    frame, series = kind
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    X, y = next(batches(phishing(), 50))
    assert list(model.predict_many(frame(X))) == [None] * 50
    assert len(model.predict_proba_many(frame(X)).columns) == 0
    model.learn_many(frame(X), series(y))
    before = model.corrector.to_bytes()
    none = frame(X)[:0]
    model.learn_many(none, series(y)[:0])
    assert model.corrector.to_bytes() == before
    out = model.predict_proba_many(none)
    assert out.shape == (0, 2)
    assert len(model.predict_many(none)) == 0


def test_labels_that_never_come(kind):
    frame, series = kind
    X, y = next(batches(phishing(), 60))
    holes = [label if i % 3 else None for i, label in enumerate(y)]
    model, loop = (CorrectedClassifier(naive_bayes.GaussianNB()) for _ in range(2))
    model.learn_many(frame(X), series(holes))
    for x, label in zip(X, holes, strict=True):
        loop._teach(loop.classifier.predict_proba_one(x), label)
    for x, label in zip(X, holes, strict=True):
        if label is not None:
            loop.classifier.learn_one(x, label)
    assert_same(
        rows_of(model.predict_proba_many(frame(X))), [loop.predict_proba_one(x) for x in X], 1e-9
    )
    assert model.corrector.n_labels == 40
    before = model.corrector.n_predictions
    model.learn_many(frame(X))
    model.learn_many(frame(X), series([None] * 60))
    assert model.corrector.n_predictions == before + 120
    assert model.corrector.n_labels == 40


def test_weights_follow_their_rows(kind):
    frame, series = kind
    X, y = next(batches(phishing(), 60))
    keep = [i for i in range(60) if i % 3]
    w = np.linspace(0.5, 2, 60)
    model, plain = linear_model.LogisticRegression(), linear_model.LogisticRegression()
    holes = [label if i % 3 else None for i, label in enumerate(y)]
    if frame is pd.DataFrame:  # river multiplies by w: no plain bool may be left an object
        holes, plain_y = (
            pd.Series(holes, dtype="boolean"),
            pd.Series([y[i] for i in keep], dtype="boolean"),
        )
    else:
        holes, plain_y = series(holes), series([y[i] for i in keep])
    corrected, loop = (CorrectedClassifier(one) for one in (model, plain.clone()))
    corrected.learn_many(frame(X), holes, w=series(w))
    for i, (x, weight) in enumerate(zip(X, w.tolist(), strict=True)):
        known = {"y": y[i], "weight": weight} if i % 3 else {"y": None}
        loop._teach(loop.classifier.predict_proba_one(x), **known)
    assert corrected.corrector.to_bytes() == loop.corrector.to_bytes()
    with pytest.raises(ValueError, match="60 rows but 59 weights w"):
        corrected.learn_many(frame(X), holes, w=series(w[:59]))
    plain.learn_many(frame([X[i] for i in keep]), plain_y, w=series(w[keep]))
    assert model.weights == plain.weights
    assert model.weights


def test_as_many_labels_as_rows(kind):
    frame, series = kind
    model = CorrectedClassifier(naive_bayes.GaussianNB())
    X, y = next(batches(phishing(), 10))
    with pytest.raises(ValueError, match="10 rows but 9 labels"):
        model.learn_many(frame(X), series(y[:9]))
    assert model.corrector is None


def test_a_pipeline_learns_and_predicts_batches(kind):
    frame, series = kind
    inside = preprocessing.StandardScaler() | CorrectedClassifier(
        multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    )
    outside = CorrectedClassifier(
        preprocessing.StandardScaler()
        | multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    )
    hits = 0
    for X, y in batches(segments(300), 20):
        for model in (inside, outside):
            hits += sum(a == b for a, b in zip(model.predict_many(frame(X)), y, strict=True))
            model.learn_many(frame(X), series(y))
    assert hits > 150  # of 600; one in seven by chance


# scikit-learn says so of river's compat, which passes frames of a batch on, and a list of one row
@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("names", [[False, True], [0, 1, 2], ["a", "b", "c"]], ids=str)
def test_frozen_scikit_learn_with_classes_of_any_type(kind, names):
    frame, series = kind
    rng = np.random.default_rng(0)
    y = rng.integers(len(names), size=300)
    Z = rng.normal(size=(300, 2)) + y[:, None]
    skl = LogisticRegression().fit(Z[:100], np.array(names)[y[:100]])
    counts = {name: int((y[:100] == i).sum()) for i, name in enumerate(names)}
    wrapped = FrozenClassifier(compat.SKL2RiverClassifier(skl, skl.classes_.tolist()))
    model, loop = (CorrectedClassifier(wrapped.clone(), train_counts=counts) for _ in range(2))
    X = [{"u": u, "v": v} for u, v in Z[100:].tolist()]
    labels = [names[i] for i in y[100:]]
    for start in range(0, 200, 50):
        cut = X[start : start + 50], labels[start : start + 50]
        one = [loop.predict_proba_one(x) for x in cut[0]]
        assert_same(rows_of(model.predict_proba_many(frame(cut[0]))), one, 1e-12)
        model.learn_many(frame(cut[0]), series(cut[1]))
        for x, label in zip(*cut, strict=True):
            loop.learn_one(x, label)
    assert model.corrector.classes == tuple(names)
    assert model.corrector.prior.tolist() == loop.corrector.prior.tolist()


def test_text():
    """Bags of words are sparse pandas frames, the kind that river's multinomial Bayes learns."""
    model = CorrectedClassifier(
        compose.Pipeline(feature_extraction.BagOfWords(), naive_bayes.MultinomialNB())
    )
    X = pd.Series(["good film", "bad film", "good plot", "bad plot"] * 10)
    y = pd.Series([True, False] * 20)
    model.learn_many(X, y)
    model.learn_many(X, y)
    assert model.predict_many(X).tolist() == y.tolist()
    out = model.predict_proba_many(X)
    assert_same(rows_of(out), [model.predict_proba_one(x) for x in X], 1e-6)


# ---- where river's own classifiers disagree between one and many (river 0.26.1)


def test_naive_bayes_mixes_up_rows_so_the_wrapper_asks_for_them_one_by_one(kind):
    frame, _ = kind
    for bayes in (naive_bayes.BernoulliNB, naive_bayes.MultinomialNB, naive_bayes.ComplementNB):
        classifier = preprocessing.MinMaxScaler() | bayes()
        model = CorrectedClassifier(bayes())
        X, y = next(batches(phishing(), 50))
        for x, label in zip(X, y, strict=True):
            model.learn_one(x, label)
        one = [model.predict_proba_one(x) for x in X]
        assert_same(rows_of(model.predict_proba_many(frame(X))), one, 1e-12)
        assert "check_predict_proba_many_matches_predict_proba_one" in classifier._unit_test_skips()


def test_one_vs_rest_says_nothing_in_batches_where_one_row_is_uniform():
    """Where no binary classifier gives any probability: NaN in a batch, uniform in one row."""

    class Never(linear_model.LogisticRegression):
        def predict_proba_one(self, x):
            return {False: 1.0, True: 0.0}

        def predict_proba_many(self, X):
            return pd.DataFrame({False: np.ones(len(X)), True: np.zeros(len(X))}, index=X.index)

    model = CorrectedClassifier(multiclass.OneVsRestClassifier(Never()))
    for x, y in segments(50):
        model.learn_one(x, y)
    X = pd.DataFrame([x for x, _ in segments(2)])
    own = model.classifier
    assert own.predict_proba_many(X).isna().all().all()
    assert set(own.predict_proba_one(segments(1)[0][0]).values()) == {1 / 7}
    out = rows_of(model.predict_proba_many(X))[0]
    assert list(out.values()) == model.corrector.prior.tolist()


def test_a_sure_row_is_clipped_alone_and_not_in_a_batch(kind):
    """river's sigmoid returns 0 below -30 for one row; the wrapper passes either on."""
    frame, _ = kind
    classifier = linear_model.LogisticRegression()
    classifier.intercept = -40.0
    model = CorrectedClassifier(classifier)
    assert model.predict_proba_one({"u": 0.0})[True] == 0
    out = rows_of(model.predict_proba_many(frame([{"u": 0.0}])))[0]
    assert 0 < out["True"] < 1e-16


def test_a_gradient_step_per_batch_is_not_one_per_row(kind):
    """river's linear models learn a batch in one mean step; a batch of one row is the same."""
    frame, series = kind
    X, y = next(batches(phishing(), 40))
    by_row, by_batch = linear_model.LogisticRegression(), linear_model.LogisticRegression()
    CorrectedClassifier(by_batch).learn_many(frame(X), series(y))
    for x, label in zip(X, y, strict=True):
        by_row.learn_one(x, label)
    assert by_batch.predict_proba_one(X[0])[True] != pytest.approx(
        by_row.predict_proba_one(X[0])[True], abs=1e-3
    )
