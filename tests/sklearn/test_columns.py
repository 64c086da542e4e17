"""The estimator with columns of a data frame."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from stream_can import Corrector, SnapshotMismatch
from stream_can.scores import log_loss
from stream_can.sklearn import StreamCalibrator

pytestmark = pytest.mark.fast
CLASSES = ["a", "b", "c"]


def rows(n=1500, seed=0):
    """Two features, and a tenant that moves the classes and that the classifier does not see."""
    rng = np.random.default_rng(seed)
    tenant, X = rng.integers(3, size=n), rng.normal(size=(n, 2))
    logits = np.column_stack([X[:, 0], X[:, 1], np.zeros(n)])
    logits[np.arange(n), tenant] += 1.5
    y = np.array(CLASSES)[(logits + rng.gumbel(size=(n, 3))).argmax(1)]
    table = pd.DataFrame(X, columns=["one", "two"])
    return table.assign(tenant=[f"t{i}" for i in tenant]), y


def classifier():
    return make_pipeline(
        make_column_transformer(("passthrough", ["one", "two"])), LogisticRegression()
    )


def by_hand(model, P, y, given):
    corrector = Corrector(CLASSES, train_counts=model, segments=["tenant"])
    corrector.fit(P, y, segments=given)
    return corrector


def test_it_equals_a_corrector_by_hand_and_helps():
    X, y = rows()
    past, now = X[:1000], X[1000:]
    folds = KFold(4)
    model = StreamCalibrator(classifier(), cv=folds, segments=["tenant"]).fit(past, y[:1000])
    P = cross_val_predict(classifier(), past, y[:1000], cv=folds, method="predict_proba")
    counts = np.unique(y[:1000], return_counts=True)[1]
    hand = by_hand(counts, P, y[:1000], past[["tenant"]])
    assert model.corrector_.to_bytes() == hand.to_bytes()
    later = model.estimator_.predict_proba(now)
    assert np.array_equal(model.predict_proba(now), hand.correct_many(later, segments=now))
    model.observe(now).partial_fit(now, y[1000:])
    hand.observe_many(later, segments=now)
    hand.learn_many(later, y[1000:], segments=now)
    assert model.corrector_.to_bytes() == hand.to_bytes()
    fresh, truth = rows(seed=1)
    codes = np.searchsorted(CLASSES, truth)
    plain = StreamCalibrator(classifier(), cv=folds).fit(past, y[:1000])
    without = log_loss(plain.predict_proba(fresh), codes)
    assert log_loss(model.predict_proba(fresh), codes) < without - 0.1


def test_kinds_of_frames_are_one():
    X, y = rows(600)
    trained = classifier().fit(X, y)
    models = [
        StreamCalibrator(trained, cv="prefit", segments=["tenant"]).fit(table, y)
        for table in (X, pl.from_pandas(X))
    ]
    assert models[0].corrector_.to_bytes() == models[1].corrector_.to_bytes()


def test_clone_and_restore_keep_the_columns():
    X, y = rows(600)
    model = StreamCalibrator(
        classifier().fit(X, y), cv="prefit", segments=["tenant"], segments_mb=1
    ).fit(X, y)
    again = clone(model)
    assert (again.segments, again.segments_mb) == (["tenant"], 1)
    snapshot = model.corrector_.to_bytes()
    given = {"cv": "prefit", "segments_mb": 1}
    restored = StreamCalibrator(model.estimator_, segments=["tenant"], **given).restore(snapshot)
    assert restored.corrector_.to_bytes() == snapshot
    with pytest.raises(SnapshotMismatch, match="segments"):
        StreamCalibrator(model.estimator_, **given).restore(snapshot)


def test_a_column_that_is_not_there_is_named():
    X, y = rows(300)
    model = StreamCalibrator(classifier(), segments=["tenant"]).fit(X, y)
    before = model.corrector_.to_bytes()
    with pytest.raises(ValueError, match="X has no column 'tenant'; give a data frame"):
        model.predict_proba(X[["one", "two"]])
    with pytest.raises(ValueError, match=r"'tenant' of row 0: 1\.5"):
        model.partial_fit(X.assign(tenant=1.5), y)
    with pytest.raises(ValueError, match="X has no column 'teapot'"):
        StreamCalibrator(classifier(), segments=["teapot"]).fit(X, y)
    assert model.corrector_.to_bytes() == before
