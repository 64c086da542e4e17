"""What a new version begins with: evidence counts less, beliefs stay."""

import copy
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector
from stream_can.method.successor import balanced
from tests.equal import compare, corrector_of, same_inside, same_values, tolerance_of
from tests.examples import examples
from tests.oracle import Oracle
from tests.strategies import events_of, segmented, streams

pytestmark = pytest.mark.fast

discounts = st.sampled_from([0.0, 0.03, 0.1, 0.5, 1.0])


def stream_of(n, m, seed):
    """Rows of an overconfident classifier that leans to the first classes, with labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, m, n)
    P = np.exp(2.5 * (rng.normal(0, 1, (n, m)) + 1.5 * np.eye(m)[y] + np.linspace(1.5, 0, m)))
    return P / P.sum(axis=1, keepdims=True), y


def learned(corrector, P, y):
    _, receipts = corrector.process_many(P, receipt=True)
    corrector.learn_many(P, y, receipts=receipts)
    return corrector


@settings(max_examples=examples(3))
@given(streams(), discounts, st.data())
def test_equals_the_oracle(stream, discount, data):
    m, counts, settings, P, events = stream
    oracle = Oracle(m, train_counts=counts, **settings)
    corrector = Corrector(m, train_counts=counts, **settings)
    tolerance = tolerance_of(settings)
    compare(oracle, corrector, P, events, tolerance)
    before = corrector.to_bytes()
    oracle, successor = oracle.successor(discount), corrector.successor(discount)
    assert corrector.to_bytes() == before
    same_inside(oracle, successor, tolerance)
    compare(oracle, successor, P, data.draw(events_of(P)), tolerance)


@settings(max_examples=examples(3))
@given(segmented(), discounts, st.data())
def test_equals_the_oracle_with_columns(stream, discount, data):
    m, settings, P, events, columns, limit, values = stream
    oracle = Oracle(m, segments=columns, segments_bytes=limit, **settings)
    corrector = corrector_of(m, settings, columns, limit)
    compare(oracle, corrector, P, events, 1e-6, values)
    oracle, corrector = oracle.successor(discount), corrector.successor(discount)
    compare(oracle, corrector, P, data.draw(events_of(P)), 1e-6, values)
    same_values(oracle, corrector, 1e-4)


@pytest.mark.parametrize("columns", [(), ("x",)])
def test_what_fit_made_is_left_to_the_old_classifier(columns):
    P, y = stream_of(520, 4, 0)
    of_old, fitted = Oracle(4, segments=columns), Corrector(4, segments=columns)
    of_old.fit(P, y)  # slow
    fitted.fit(P, y)
    more, labels = stream_of(60, 4, 1)
    for p, label in zip(more, labels, strict=True):
        of_old.observe(p)
        fitted.observe_one(p)
        of_old.learn(p, label)
        fitted.learn_one(p, label)
    for discount in (0.0, 0.1, 1.0):
        oracle, corrector = copy.deepcopy(of_old).successor(discount), fitted.successor(discount)
        assert corrector.fit_report is None
        assert "fitted" not in corrector.weights
        same_inside(oracle, corrector, 1e-5)
        for p, label in zip(*stream_of(60, 4, 2), strict=True):
            expected, receipt = oracle.process(p)
            better, own = corrector.process_one(p, receipt=True)
            np.testing.assert_allclose(better, expected, atol=1e-5)
            oracle.learn(p, label, receipt)
            corrector.learn_one(p, label, receipt=own)


@settings(max_examples=examples(3))
@given(streams())
def test_a_discount_of_1_is_a_copy(stream):
    m, counts, settings, P, events = stream
    corrector = Corrector(m, train_counts=counts, **settings)
    compare(Oracle(m, train_counts=counts, **settings), corrector, P, events, 1e-5)
    assert corrector.successor(1).to_bytes() == corrector.to_bytes()


def test_a_discount_of_0_keeps_the_class_mix_and_the_weights_of_the_paths():
    corrector = learned(Corrector(3, train_counts=[5, 1, 1]), *stream_of(500, 3, 0))
    begun = corrector.successor(0)
    kept, new = begun._state, Corrector(3, train_counts=[5, 1, 1])._state
    for name, array in corrector._state.items():
        stays = name in ("weights", "labels", "heard", "W.moving")
        np.testing.assert_array_equal(kept[name], array if stays else new[name], name)
    np.testing.assert_array_equal(begun.prior, corrector.prior)
    begun.fit(*stream_of(60, 3, 1))  # no prediction of the new version went by


def test_it_starts_from_what_was_learned_and_moves_faster():
    old = learned(Corrector(3), *stream_of(3000, 3, 0))
    new, none = old.successor(), Corrector(3)
    P, y = stream_of(300, 3, 1)
    sent = {name: c.correct_many(P) for name, c in (("old", old), ("new", new), ("none", none))}
    loss = {name: -np.log(rows[np.arange(300), y]).mean() for name, rows in sent.items()}
    assert loss["new"] < loss["none"] - 0.1
    assert loss["new"] < loss["old"] + 0.02
    before = [c.temperature for c in (old, new)]
    sharper = P**2 / (P**2).sum(axis=1, keepdims=True)
    for corrector in (old, new):
        learned(corrector, sharper[:50], y[:50])
    moved = [c.temperature - t for c, t in zip((old, new), before, strict=True)]
    assert moved[1] > 3 * moved[0] > 0


def test_a_snapshot_of_a_successor_goes_on():
    corrector = learned(Corrector(3, segments=["x"]), *stream_of(200, 3, 0)).successor()
    again = Corrector.from_bytes(corrector.to_bytes())
    P, y = stream_of(50, 3, 1)
    assert learned(again, P, y).to_bytes() == learned(corrector, P, y).to_bytes()


def test_every_python_makes_the_same_bits():
    """sum() of floats is another from 3.12 on; a log is folded by all that there are."""
    K = 1 / np.arange(2.0, 17.0) + np.array([9, 0, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 6, 0, 5])
    us = [np.array([((7 * i + 3 * j) % 11 - 5) / 7 for j in range(5)]) for i in range(40)]
    found = b"".join(balanced(u, K, 0.1).astype("<f8").tobytes() for u in us)
    assert hashlib.sha256(found).hexdigest().startswith("42a7dee0a853235a")


class Own(Corrector):
    """As a user may have one."""


def test_it_is_of_the_same_kind_and_settings():
    own = Own(["a", "b"], half_life=77, segments=["x"], segments_mb=1)
    own.learn_one([0.5, 0.5], "a", segments={"x": 1})
    after = own.successor()
    assert type(after) is Own
    assert (after.classes, after.settings, after.paths) == (own.classes, own.settings, own.paths)
    assert list(after.segment_values("x")) == ["1"]


@pytest.mark.parametrize("discount", [-0.1, 1.1, float("nan"), float("inf"), "x", None, True])
def test_what_is_no_share_is_refused(discount):
    with pytest.raises(ValueError, match=f"discount: {discount!r}, expected a number from 0 to 1"):
        Corrector(2).successor(discount)
