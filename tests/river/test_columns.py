"""The river wrapper with columns: the features whose values say more than the classifier makes."""

import copy

import numpy as np
import pandas as pd
import pytest

from stream_can.river import CorrectedClassifier, FrozenClassifier

CLASSES = ["a", "b", "c"]


def rows(n, seed=0):
    """Rows with a tenant, of which every seventh has none, and labels that depend on it."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        tenant = int(rng.integers(4))
        p = rng.dirichlet(np.full(3, 0.7))
        x = {"p": p.tolist()} | ({"tenant": tenant} if i % 7 else {})
        yield x, CLASSES[tenant % 3] if rng.random() < 0.6 else CLASSES[int(p.argmax())]


def wrapper(**settings):
    says = FrozenClassifier(lambda x: dict(zip(CLASSES, x["p"], strict=True)))
    counts = dict.fromkeys(CLASSES, 100)
    return CorrectedClassifier(says, train_counts=counts, segments=["tenant"], **settings)


def test_frames_are_the_rows():
    known = [(x, y) for x, y in rows(200) if "tenant" in x]
    one, many = wrapper(), wrapper()
    for x, y in known:
        one.learn_one(x, y)
    X = pd.DataFrame([x for x, _ in known])
    many.learn_many(X, pd.Series([y for _, y in known]))
    assert one.corrector.to_bytes() == many.corrector.to_bytes()
    table = many.predict_proba_many(X)
    assert table.to_dict("records") == [many.predict_proba_one(x) for x, _ in known]
    best = many.predict_many(X)
    assert best.tolist() == [many.predict_one(x) for x, _ in known]
    without = many.predict_proba_many(X[["p"]])
    assert without.to_dict("records") == [many.predict_proba_one({"p": x["p"]}) for x, _ in known]


def test_copies_keep_the_columns():
    model = wrapper(segments_mb=1)
    for x, y in rows(50):
        model.learn_one(x, y)
    assert copy.deepcopy(model).corrector.to_bytes() == model.corrector.to_bytes()
    again = model.clone()
    assert (again.segments, again.segments_mb) == (["tenant"], 1)
    assert again.corrector.segments == ("tenant",)


def test_a_measurement_is_refused_and_nothing_learns():
    model = wrapper()
    before = model.corrector.to_bytes()
    x = {"p": [0.5, 0.3, 0.2], "tenant": 1.5}
    X = pd.DataFrame([x])
    for call in (
        lambda: model.learn_one(x, "a"),
        lambda: model.learn_many(X, pd.Series(["a"])),
        lambda: model.predict_proba_one(x),
        lambda: model.predict_proba_many(X),
    ):
        with pytest.raises(ValueError, match=r"segments: 'tenant'.*1\.5"):
            call()
    assert model.corrector.to_bytes() == before


def test_a_class_that_says_nothing_yet_has_no_columns_either():
    model = CorrectedClassifier(FrozenClassifier(lambda x: {}), segments=["tenant"])
    model.learn_one({"tenant": "t"}, "a")
    assert model.predict_proba_one({"tenant": "t"}) == {"a": 1.0}
    assert model.predict_proba_one("a text") == {"a": 1.0}


def test_a_column_that_is_none_is_refused_at_once():
    with pytest.raises(ValueError, match="segments: 'tenant', expected a list"):
        CorrectedClassifier(FrozenClassifier(lambda x: {}), segments="tenant")
