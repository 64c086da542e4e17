"""A known class mix of the stream: a row at it goes out from the first row on; labels overrule."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector, SnapshotMismatch, StreamCANError
from tests.equal import compare, tolerance_of
from tests.examples import examples
from tests.oracle import Oracle
from tests.strategies import streams

pytestmark = pytest.mark.fast


@settings(max_examples=examples(8))
@given(streams(), st.integers(0, 2**32 - 1))
def test_equals_the_oracle(stream, seed):
    m, counts, settings, P, events = stream
    if len(settings["paths"]) == 1:
        settings["paths"] = ["raw", "temperature"]
    mix = np.random.default_rng(seed).dirichlet(np.full(m, 0.3))
    oracle = Oracle(m, train_counts=counts, prior=0.999 * mix + 0.001 / m, **settings)
    corrector = Corrector(m, train_counts=counts, prior=mix, **settings)
    compare(oracle, corrector, P, events, tolerance_of(settings))


def stream_of(mix, n=1500):
    """Rows of a classifier that is calibrated at an even mix, and labels of another one."""
    rng = np.random.default_rng(0)
    y = rng.choice(len(mix), n, p=mix)
    z = rng.normal(size=(n, len(mix))) + np.eye(len(mix))[y]
    P = np.exp(z)
    return P / P.sum(axis=1, keepdims=True), y


def loss(rows, y):
    return -np.log(rows[np.arange(len(y)), y]).mean()


def test_it_helps_without_labels_and_labels_overrule_a_wrong_one():
    P, y = stream_of([0.8, 0.1, 0.1])
    right, wrong = (Corrector(3, prior=mix) for mix in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8]))
    rows = right.correct_many(P)
    assert loss(rows, y) < loss(P, y) - 0.15
    assert (rows.argmax(1) == y).mean() > (P.argmax(1) == y).mean() + 0.05
    assert right.final_weights["known"] == pytest.approx(2 / 3)
    assert loss(wrong.correct_many(P), y) > loss(P, y) + 0.1
    wrong.learn_many(P[:100], y[:100])
    assert wrong.final_weights["known"] < 0.01
    assert loss(wrong.correct_many(P), y) < loss(P, y) + 0.01


def test_it_is_changed_in_the_stream_and_kept():
    P, y = stream_of([0.8, 0.1, 0.1])
    corrector = Corrector(["a", "b", "c"], prior={"a": 1, "b": 1, "c": 8})
    corrector.learn_many(P[:200], [["a", "b", "c"][k] for k in y[:200]])
    assert corrector.final_weights["known"] < 0.01
    corrector.set_prior({"a": 0.8, "b": 0.1, "c": 0.1})
    assert corrector._state["odds.known"] == 0
    again = Corrector.from_bytes(corrector.to_bytes())
    np.testing.assert_array_equal(again.correct_many(P), corrector.correct_many(P))
    same = Corrector.from_bytes(corrector.to_bytes(), prior=["a=8", "b=1", "c=1"])
    assert same.final_weights == corrector.final_weights
    later = Corrector(["a", "b", "c"])
    later.set_prior([8, 1, 1])
    np.testing.assert_allclose(later.known_prior, [0.7995, 0.1002, 0.1002], atol=1e-4)
    assert corrector.successor().known_prior is not None
    corrector._add_class("d")
    assert corrector.correct_one([0.25] * 4).argmax() == 0


def test_it_is_taken_away():
    """Nothing of it is left, and receipts of before teach as missing ones."""
    P, y = stream_of([0.8, 0.1, 0.1], 50)
    corrector, never = Corrector(3, prior=[8, 1, 1]), Corrector(3)
    _, receipts = corrector.process_many(P, receipt=True)
    never.observe_many(P)
    kept = corrector.to_bytes()
    assert Corrector.from_bytes(kept, half_life=100).known_prior is not None
    for none in (None, ["none"]):
        assert Corrector.from_bytes(kept, prior=none).to_bytes() == never.to_bytes()
    corrector.set_prior(None)
    corrector.learn_many(P, y, receipts=receipts)
    never.learn_many(P, y)
    assert corrector.to_bytes() == never.to_bytes()


@pytest.mark.parametrize(
    ("prior", "why"),
    [
        ([0.5, 0.2, 0.2], "shares sum to 0.9, expected 1"),
        ([2, -1, 0], "prior: -1 of class 'b'"),
        ({"x": 1}, "prior: 'x' is none of the 3 classes: 'a', 'b', 'c'"),
        (["a=1", "x=2"], "prior: 'x' is none of the 3 classes: 'a', 'b', 'c'"),
        (["a=0.5", "a=0.5"], "prior: class 'a' is named twice"),
        (["a=1", "2"], "prior: '2', expected CLASS=NUMBER as of the others"),
        ([0.5, 0.5], r"prior: shape \(2,\), expected 3 numbers"),
        (["a=?"], "expected a number for each class"),
        ({"a", "b"}, "prior: a set has no order"),
        ([0, 0, 0], "shares sum to 0"),
        ([float("nan"), 1, 1], "prior: nan of class 'a'"),
    ],
)
def test_what_is_no_mix_is_refused_by_name(prior, why):
    with pytest.raises(ValueError, match=why):
        Corrector(["a", "b", "c"], prior=prior)


def test_where_no_row_can_follow_it_is_refused():
    mix = [0.5, 0.3, 0.2]
    for others in ({"paths": ["raw"]}, {"monotone": True}, {"segments": ["x"]}):
        with pytest.raises(ValueError, match="prior: "):
            Corrector(3, prior=mix, **others)
    P, y = stream_of(mix, 100)
    corrector = Corrector(3, prior=mix)
    with pytest.raises(StreamCANError, match="fit: follows the class mix"):
        corrector.fit(P, y)
    fitted = Corrector(3)
    fitted.fit(P, y)
    with pytest.raises(ValueError, match="prior: cannot be kept together with fit"):
        fitted.set_prior(mix)
    with pytest.raises(SnapshotMismatch):
        Corrector.from_bytes(corrector.to_bytes()[:-5])
