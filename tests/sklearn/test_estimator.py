"""The estimator: as scikit-learn wants it, and its corrector as one would run it by hand."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from stream_can import Corrector, SnapshotMismatch, UnknownClass
from stream_can.scores import log_loss
from stream_can.sklearn import StreamCalibrator

pytestmark = pytest.mark.fast


@pytest.mark.filterwarnings("ignore:fit. no validation row:UserWarning")
@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
def test_scikit_learns_own_checks():
    done = check_estimator(StreamCalibrator(LogisticRegression(), cv=3), on_skip=None)
    assert len(done) > 50
    # The one about other array libraries runs only where an environment variable asks for it.
    others = {one["check_name"] for one in done if one["status"] != "passed"}
    assert others <= {"check_array_api_input"}


@pytest.fixture(scope="module")
def data():
    """A stream whose class mix is not that of the training rows."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    late = np.flatnonzero((np.arange(len(y)) >= 900) & ((y < 4) | (np.arange(len(y)) % 7 == 0)))
    return X[:900], y[:900], X[late], y[late]


def test_fit_is_the_correctors_fit_on_held_out_predictions(data):
    X, y, fresh, _ = data
    model = StreamCalibrator(GaussianNB(), cv=TimeSeriesSplit(3), half_life=2000).fit(X, y)
    P, rows = [], []
    for train, test in TimeSeriesSplit(3).split(X):
        P.append(GaussianNB().fit(X[train], y[train]).predict_proba(X[test]))
        rows.append(test)
    corrector = Corrector(10, train_counts=np.bincount(y), half_life=2000)
    corrector.fit(np.concatenate(P), y[np.concatenate(rows)])
    trained = GaussianNB().fit(X, y)
    assert model.corrector_.to_bytes() == corrector.to_bytes()
    expected = corrector.correct_many(trained.predict_proba(fresh))
    assert (model.predict_proba(fresh) == expected).all()
    assert (model.predict(fresh) == expected.argmax(1)).all()


def test_predicting_changes_nothing_and_each_verb_is_the_correctors(data):
    X, y, fresh, labels = data
    model = StreamCalibrator(GaussianNB()).fit(X, y)
    before = model.corrector_.to_bytes()
    model.predict(fresh)
    model.predict_proba(fresh)
    model.score(fresh, labels)
    assert model.corrector_.to_bytes() == before
    other = Corrector.from_bytes(before)
    raw = model.estimator_.predict_proba(fresh)
    assert model.observe(fresh[:100]).partial_fit(fresh[:50], labels[:50]) is model
    other.observe_many(raw[:100])
    other.learn_many(raw[:50], labels[:50])
    assert model.corrector_.to_bytes() == other.to_bytes()


def test_labels_have_the_weights_of_the_corrector(data):
    X, y, fresh, labels = data
    model = StreamCalibrator(GaussianNB()).fit(X, y)
    before = model.corrector_.to_bytes()
    with pytest.raises(ValueError, match=r"label 1: weight: 0.0, expected"):
        model.partial_fit(fresh[:2], labels[:2], sample_weight=[1, 0])
    assert model.corrector_.to_bytes() == before
    weights = np.random.default_rng(0).uniform(0.01, 100, 50)
    model.partial_fit(fresh[:50], labels[:50], sample_weight=weights)
    other = Corrector.from_bytes(before)
    other.learn_many(model.estimator_.predict_proba(fresh[:50]), labels[:50], weights=weights)
    assert model.corrector_.to_bytes() == other.to_bytes()
    first, weights = StreamCalibrator(GaussianNB(), cv=3), np.arange(1, len(y) + 1)
    first.partial_fit(X, y, sample_weight=weights)  # a fit: they are of training rows
    fitted = StreamCalibrator(GaussianNB(), cv=3).fit(X, y, sample_weight=weights)
    assert first.corrector_.to_bytes() == fitted.corrector_.to_bytes()


def test_labels_help_where_the_class_mix_moved(data):
    X, y, fresh, labels = data
    model = StreamCalibrator(GaussianNB()).fit(X, y)
    losses = {"raw": [], "fit": [], "labels": []}
    once = clone(model).fit(X, y)
    for rows in np.array_split(np.arange(len(labels)), 20):
        batch, known = fresh[rows], labels[rows]
        for name, P in [
            ("raw", model.estimator_.predict_proba(batch)),
            ("fit", once.predict_proba(batch)),
            ("labels", model.predict_proba(batch)),
        ]:
            losses[name].append(log_loss(P, known))
        model.observe(batch).partial_fit(batch, known)
    raw, fit, learned = (np.mean(losses[name]) for name in losses)
    assert learned < fit - 0.02
    assert fit < raw - 0.5


def test_prefit_and_partial_fit_without_validation_rows(data):
    X, y, fresh, labels = data
    trained = GaussianNB().fit(X, y)
    fitted = StreamCalibrator(trained, cv="prefit").fit(fresh[:300], labels[:300])
    assert fitted.estimator_ is trained
    assert fitted.corrector_.fit_report["rows"] == 300
    counts = dict(enumerate(np.bincount(y)))
    bare = StreamCalibrator(trained, cv="prefit", train_counts=counts)
    bare.partial_fit(fresh[:200], labels[:200], classes=range(10))
    assert bare.corrector_.fit_report is None
    assert bare.corrector_.n_labels == 200
    with pytest.raises(ValueError, match="'sample_weight' is for a classifier to be trained"):
        fitted.fit(fresh, labels, sample_weight=np.ones(len(labels)))


def test_a_snapshot_is_enough_to_go_on(data):
    X, y, fresh, labels = data
    trained = GaussianNB().fit(X, y)
    first = StreamCalibrator(trained, cv="prefit").fit(X[:400], y[:400])
    first.observe(fresh[:100]).partial_fit(fresh[:100], labels[:100])
    second = StreamCalibrator(trained, cv="prefit").restore(first.corrector_.to_bytes())
    for model in (first, second):
        model.observe(fresh[100:]).partial_fit(fresh[100:], labels[100:])
    assert first.corrector_.to_bytes() == second.corrector_.to_bytes()
    assert (pickle.loads(pickle.dumps(first)).predict(fresh) == second.predict(fresh)).all()
    other = GaussianNB().fit(X[y < 9], y[y < 9])
    with pytest.raises(SnapshotMismatch, match="classes"):
        StreamCalibrator(other, cv="prefit").restore(first.corrector_.to_bytes())
    with pytest.raises(ValueError, match='cv="prefit"'):
        StreamCalibrator(trained).restore(first.corrector_.to_bytes())


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_in_a_pipeline(kind):
    X, y = make_classification(600, 5, n_informative=4, n_redundant=0, random_state=0)
    names = [f"feature {i}" for i in range(5)]
    frame = pd.DataFrame(X, columns=names) if kind == "pandas" else pl.DataFrame(X, schema=names)
    labels = np.where(y == 1, "yes", "no")
    series = pd.Series(labels) if kind == "pandas" else pl.Series(labels)
    columns = make_column_transformer((StandardScaler(), names)).set_output(transform=kind)
    model = make_pipeline(columns, StreamCalibrator(LogisticRegression(), cv=3))
    model.fit(frame, series)
    last = model[-1]
    assert list(last.feature_names_in_) == [f"standardscaler__{name}" for name in names]
    assert last.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(frame)) <= {"no", "yes"}
    last.observe(columns.transform(frame)).partial_fit(columns.transform(frame), series)
    assert last.corrector_.n_labels == 600
    plain = StreamCalibrator(LogisticRegression(), cv=3).fit(frame, series)
    assert list(plain.feature_names_in_) == names


def test_grid_search(data):
    X, y, *_ = data
    search = GridSearchCV(
        StreamCalibrator(GaussianNB(), cv=3),
        {"half_life": [500, 5000], "estimator__var_smoothing": [1e-9, 1e-2]},
        scoring="neg_log_loss",
        cv=2,
    )
    search.fit(X, y)
    assert search.best_params_["estimator__var_smoothing"] == 1e-2
    assert isinstance(search.best_estimator_.corrector_, Corrector)


def test_metadata_routing(data):
    X, y, *_ = data
    weights, groups = np.ones(len(y)), np.arange(len(y)) % 4
    weights[::2] = 3
    plain = StreamCalibrator(GaussianNB(), cv=3).fit(X, y, sample_weight=weights)
    assert plain.estimator_.theta_ == pytest.approx(GaussianNB().fit(X, y, weights).theta_)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = StreamCalibrator(
            GaussianNB().set_fit_request(sample_weight=True), cv=GroupKFold(4)
        ).fit(X, y, sample_weight=weights, groups=groups)
        folds = list(GroupKFold(4).split(X, y, groups))
        routed.set_partial_fit_request(sample_weight=True)  # as an estimator around it asks
        requests = routed.get_metadata_routing()._self_request.partial_fit.requests
        assert requests == {"classes": None, "sample_weight": True}
    by_hand = StreamCalibrator(GaussianNB(), cv=folds).fit(X, y, sample_weight=weights)
    assert routed.corrector_.to_bytes() == by_hand.corrector_.to_bytes()


def test_refused(data):
    X, y, fresh, _ = data
    model = StreamCalibrator(GaussianNB()).fit(X, y)
    before = model.corrector_.to_bytes()
    with pytest.raises(UnknownClass, match="label of row 1 10 is none of the 10 classes"):
        model.partial_fit(fresh[:2], [1, 10])
    with pytest.raises(ValueError, match="classes are \\[0, 1\\]"):
        model.partial_fit(fresh[:2], [0, 1], classes=[0, 1])
    assert model.corrector_.to_bytes() == before
    with pytest.raises(ValueError, match="LinearSVC has no predict_proba"):
        StreamCalibrator(LinearSVC()).fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="half_life"):
        StreamCalibrator(GaussianNB(), half_life=0).fit(X, y)


@pytest.mark.parametrize("cv", [3, "prefit"])
def test_classes_that_no_row_has_leave_it_unfitted(cv):
    X, y = make_classification(60, random_state=0)
    estimator = LogisticRegression().fit(X, y) if cv == "prefit" else LogisticRegression()
    model = StreamCalibrator(estimator, cv=cv)
    with pytest.raises(ValueError, match=r"classes are \[0, 1, 2\], but the .* \[0, 1\]; a class"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert model.partial_fit(X, y, classes=[0, 1]).predict(X).shape == (60,)


@pytest.mark.parametrize("n", [59, 61])
def test_weights_of_a_wrong_length_are_refused_for_all_rows(n):
    X, y = make_classification(60, random_state=0)
    with pytest.raises(ValueError, match=f"sample_weight has {n} weights for 60 rows; give one"):
        StreamCalibrator(LogisticRegression(), cv=3).fit(X, y, sample_weight=np.ones(n))


def test_splits_of_sorted_labels_are_warned_of(data):
    X, y, _, _ = data
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    with pytest.warns(UserWarning, match=r"of 900 held-out rows .* of class 0; .*StratifiedKFold"):
        StreamCalibrator(GaussianNB(), cv=KFold(3)).fit(X, y)
    for cv in (StratifiedKFold(3), KFold(3, shuffle=True, random_state=0)):
        StreamCalibrator(GaussianNB(), cv=cv).fit(X, y)  # a warning would be an error


def test_a_new_version_starts_from_what_was_learned():
    X, y = load_digits(return_X_y=True)
    old = StreamCalibrator(GaussianNB(), half_life=500).fit(X[:600], y[:600])
    old.observe(X[600:1000]).partial_fit(X[600:1000], y[600:1000])
    before = old.corrector_.to_bytes()
    version = GaussianNB().fit(X[:1000], y[:1000])
    new = old.successor(version)
    assert new.estimator_ is version
    assert new.half_life == 500
    assert new.corrector_.to_bytes() == old.corrector_.successor().to_bytes()
    assert new.predict_proba(X[1000:]).shape == (797, 10)
    new.partial_fit(X[1000:1400], y[1000:1400])
    assert old.corrector_.to_bytes() == before
    with pytest.raises(ValueError, match=r"the new classifier has classes .*, this one"):
        old.successor(GaussianNB().fit(X[:1000], y[:1000] % 3))
    with pytest.raises(NotFittedError):
        old.successor(GaussianNB())


def test_groups_without_routing_say_how_they_reach_the_splitter():
    X, y = np.zeros((8, 2)), np.arange(8) % 2
    with pytest.raises(ValueError, match=r"sklearn.set_config\(enable_metadata_routing=True\)"):
        StreamCalibrator(GaussianNB(), cv=GroupKFold(2)).fit(X, y, groups=np.arange(8) // 2)
