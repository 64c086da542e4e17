"""The estimator behind classifiers of multilabel rows, on river's Yeast."""

import pickle

import numpy as np
import pandas as pd
import pytest
from river import datasets
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from stream_can import Corrector, UnknownClass
from stream_can.errors import SnapshotMismatch
from stream_can.multilabel import LabelScores, MultiLabelCorrector
from stream_can.sklearn import StreamCalibrator

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def yeast():
    """Genes of yeast, what each does: 14 labels."""
    rows, labels = zip(*datasets.Yeast(), strict=True)
    X, Y = pd.DataFrame(rows).to_numpy(), pd.DataFrame(labels).to_numpy().astype(int)
    order = np.random.default_rng(0).permutation(len(Y))
    return X[order], Y[order]


def logistic():
    return MultiOutputClassifier(LogisticRegression(max_iter=500))


CLASSIFIERS = [
    logistic(),
    OneVsRestClassifier(LogisticRegression(max_iter=500)),
    ClassifierChain(LogisticRegression(max_iter=500)),
    KNeighborsClassifier(20),
    RandomForestClassifier(20, random_state=0),
    MLPClassifier([20], max_iter=30, random_state=0),
    make_pipeline(StandardScaler(), logistic()),
]


def plain(classifier, X):
    """Its probabilities of 1, whatever it calls them."""
    P = classifier.predict_proba(X)
    return np.column_stack([one[:, 1] for one in P]) if isinstance(P, list) else P


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda c: type(c).__name__)
def test_is_a_plain_loop_over_the_corrector(yeast, classifier):
    X, Y = yeast
    splits = KFold(2)
    model = StreamCalibrator(classifier, cv=splits, half_life=800).fit(X[:600], Y[:600])
    corrector = MultiLabelCorrector(14, train_counts=Y[:600].sum(0), train_rows=600, half_life=800)
    for train, test in splits.split(X[:600]):
        P = plain(clone(classifier).fit(X[train], Y[train]), X[test])
        for p, y in zip(P, Y[test], strict=True):
            _, receipt = corrector.process_one(p, receipt=True)
            corrector.learn_one(p, y, receipt=receipt)
    assert model.corrector_.to_bytes() == corrector.to_bytes()
    trained, late = clone(classifier).fit(X[:600], Y[:600]), X[600:1000]
    known = np.where(np.random.default_rng(1).random((400, 14)) < 0.3, Y[600:1000], -1)
    corrector.observe_many(plain(trained, late))
    corrector.learn_many(plain(trained, late), known)
    assert model.observe(late).partial_fit(late, known) is model
    assert model.corrector_.to_bytes() == corrector.to_bytes()
    P = corrector.correct_many(plain(trained, X[1000:]))
    assert (model.predict_proba(X[1000:]) == P).all()
    assert (model.predict(X[1000:]) == (P >= 0.5)).all()
    assert (model.decide(X[1000:]) == corrector.decide(P)).all()
    assert model.predict(X[1000:]).dtype == int
    assert model.classes_.tolist() == list(range(14))


@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
def test_scikit_learns_own_checks():
    done = check_estimator(
        StreamCalibrator(RandomForestClassifier(5, random_state=0), cv=3), on_skip=None
    )
    names = {one["check_name"] for one in done if one["status"] == "passed"}
    assert "check_classifiers_multilabel_output_format_predict_proba" in names
    assert "check_classifiers_multilabel_output_format_predict" in names
    others = {one["check_name"] for one in done if one["status"] != "passed"}
    assert others <= {
        "check_array_api_input",
        "check_classifiers_multilabel_output_format_decision_function",  # it has none
    }


def test_labels_lower_the_loss_where_the_mix_moved(yeast):
    X, Y = yeast
    train, late = np.arange(600), np.arange(600, len(Y))
    late = late[(Y[late, 0] == 0) | (late % 4 == 0)]  # label 0 has become rare
    model = StreamCalibrator(MultiOutputClassifier(GaussianNB())).fit(X[train], Y[train])
    scores = LabelScores(14), LabelScores(14)
    for rows in np.array_split(late, 30):
        for score, P in zip(
            scores, [plain(model.estimator_, X[rows]), model.predict_proba(X[rows])], strict=True
        ):
            score.add(P, Y[rows], P >= 0.5)
        model.observe(X[rows]).partial_fit(X[rows], Y[rows])
    raw, ours = scores
    print(raw.log_loss, ours.log_loss, raw.macro_f1, ours.macro_f1)
    assert ours.log_loss < raw.log_loss - 0.3


def test_a_label_that_no_row_of_a_split_has(yeast):
    X, Y = yeast[0][:90], yeast[1][:90, :3].copy()
    Y[:, 1] = 0  # trees have one column for it
    Y[:, 2] = 1
    model = StreamCalibrator(RandomForestClassifier(5, random_state=0), cv=3).fit(X, Y)
    P = model._raw(X)
    assert (P[:, 1:] == [0, 1]).all()
    assert P[:, 0].any()


@pytest.mark.parametrize("form", [pd.DataFrame, csr_matrix, lambda Y: Y.astype(bool), list])
def test_what_y_may_be(yeast, form):
    X, Y = yeast[0][:200], yeast[1][:200, :5]
    model = StreamCalibrator(logistic(), cv=2).fit(X, form(Y))
    expected = StreamCalibrator(logistic(), cv=2).fit(X, Y)
    assert model.corrector_.to_bytes() == expected.corrector_.to_bytes()


@pytest.fixture(scope="module")
def prefit(yeast):
    """A classifier of 600 rows, and an estimator behind it that has learned 100 more."""
    X, Y = yeast
    trained = logistic().fit(X[:600], Y[:600])
    counts = dict(enumerate(Y[:600].sum(0)))
    model = StreamCalibrator(trained, cv="prefit", train_counts=counts, train_rows=600)
    return trained, model.partial_fit(X[600:700], Y[600:700], classes=[[0, 1]] * 14)


def test_prefit_counts_its_training_rows(yeast, prefit):
    _, model = prefit
    assert model.corrector_.n_labels == 100
    assert model.corrector_.train_shares[0] == (yeast[1][:600, 0].sum() + 0.5) / 601


def test_a_snapshot_and_a_pickle_go_on_alike(yeast, prefit):
    trained, model = prefit
    restored = StreamCalibrator(trained, cv="prefit").restore(model.corrector_.to_bytes())
    for again in (restored, pickle.loads(pickle.dumps(model))):
        assert (again.predict_proba(yeast[0]) == model.predict_proba(yeast[0])).all()


def test_a_new_version_has_the_successor_of_the_corrector(yeast, prefit):
    (X, Y), (_, model) = yeast, prefit
    new = model.successor(logistic().fit(X[:700], Y[:700]))
    assert new.corrector_.to_bytes() == model.corrector_.successor().to_bytes()
    assert (new.predict_proba(X[:2]) != model.predict_proba(X[:2])).any()
    with pytest.raises(ValueError, match="new classifier has classes"):
        model.successor(logistic().fit(X[:700], Y[:700, :3]))


def test_prefit_learns_rows_whose_labels_are_known_in_part(yeast, prefit):
    X, known = yeast[0][600:], np.where(yeast[0][600:, :14] > 0, 1, -1)
    model = StreamCalibrator(prefit[0], cv="prefit").fit(X, known)
    assert model.corrector_.n_predictions == len(X)


def test_refused(yeast):
    X, Y = yeast[0][:200], yeast[1][:200, :3]
    trained = logistic().fit(X, Y)
    one = LogisticRegression(max_iter=500).fit(X, Y[:, 0])
    for settings, why in [
        ({"uncertainty": 0.1}, "uncertainty: not of multilabel rows"),
        ({"sets": 0.9}, "sets: not of multilabel rows"),
        ({"segments": {"c": ["a", "b"]}}, "X has no column 'c'"),
        ({"train_counts": [1, 2, 3]}, "train_counts and train_rows: give both"),
        ({"train_rows": 5}, "train_counts and train_rows: give both"),
        ({"half_life": 0}, "half_life"),
    ]:
        with pytest.raises(ValueError, match=why):
            StreamCalibrator(logistic(), **settings).fit(X, Y)
    with pytest.raises(ValueError, match="train_rows: for multilabel rows, y has one"):
        StreamCalibrator(one, cv="prefit", train_rows=5).fit(X, Y[:, 0])
    partly = Y.copy()
    partly[7, 2] = -1
    with pytest.raises(ValueError, match=r"row 7: label 2 is -1, expected 1 or 0"):
        StreamCalibrator(logistic()).fit(X, partly)
    prefit = StreamCalibrator(trained, cv="prefit")
    with pytest.raises(ValueError, match=r"predicts 3 labels a row, y has one; .* \(n, 3\)"):
        prefit.fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="y has 2 labels a row, the classifier 3"):
        prefit.fit(X, Y[:, :2])
    assert not hasattr(prefit, "corrector_")
    prefit.fit(X, Y)
    before = prefit.corrector_.to_bytes()
    with pytest.raises(UnknownClass, match="row 1: label 0 is 2"):
        prefit.partial_fit(X[:2], [[1, 0, 1], [2, 0, 1]])
    with pytest.raises(UnknownClass, match="expected integers of shape"):
        prefit.partial_fit(X[:2], [1, 0])
    with pytest.raises(ValueError, match="classes are"):
        prefit.partial_fit(X[:2], Y[:2], classes=[0, 1, 2])
    assert prefit.corrector_.to_bytes() == before
    with pytest.raises(ValueError, match="predict_set: a set is of one label a row"):
        prefit.predict_set(X)
    single = StreamCalibrator(one, cv="prefit").fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="decide: for multilabel rows"):
        single.decide(X)
    with pytest.raises(ValueError, match="labels have shape"):
        single.partial_fit(X, Y)
    for bytes_, classifier in [(Corrector(2).to_bytes(), trained), (before, one)]:
        with pytest.raises((ValueError, SnapshotMismatch), match="labels"):
            StreamCalibrator(classifier, cv="prefit").restore(bytes_)
