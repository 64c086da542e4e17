"""Decisions by costs: the plain sums of the definition, forms of costs, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Costs, InvalidPrediction
from stream_can.method.costs import costs_of_text

pytestmark = pytest.mark.fast
FRAUD = {"block": {"fraud": 0, "fine": 20}, "pass": {"fraud": 500, "fine": 0}, "call": 8}


def rows(n, m, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(m, 0.5), n)


def test_the_least_sum_of_cost_times_probability_is_decided_on():
    P, C = rows(500, 4), np.random.default_rng(1).normal(size=(3, 4)).round(2)
    costs = Costs(4, {f"a{k}": C[k] for k in range(3)})
    for p, action, expected in zip(P, costs.decide(P), costs.expected(P), strict=True):
        plain = [sum(C[a][k] * p[k] for k in range(4)) for a in range(3)]
        np.testing.assert_allclose(expected, plain, rtol=1e-12)
        assert action == f"a{plain.index(min(plain))}" == costs.decide_one(p)


def test_two_actions_are_a_threshold():
    """Acting pays from (false alarm) / (false alarm + miss) on: Elkan, equation 2."""
    costs = Costs(["no", "yes"], {"act": {"no": 1, "yes": 0}, "wait": {"no": 0, "yes": 4}})
    p = np.linspace(0, 1, 101)[1:-1]
    decided = costs.decide(np.column_stack([1 - p, p]))
    assert [action == "act" for action in decided] == (p >= 0.2 - 1e-12).tolist()


def test_wrong_classes_with_a_price_for_abstaining_are_chows_rule():
    P, m, price = rows(2000, 3), 3, 0.3
    errors = {str(k): {k: 0, "*": 1} for k in range(m)} | {"ask": price}
    expected = ["ask" if p.max() < 1 - price else str(p.argmax()) for p in P]
    assert Costs(m, errors).decide(P) == expected


def test_of_equally_cheap_actions_the_first():
    assert Costs(2, {"b": 1, "a": 1}).decide_one([0.5, 0.5]) == "b"


def test_a_row_decides_alone():
    """The bits of a row's sums do not depend on the rows beside it."""
    P = rows(300, 37)
    costs = Costs(37, {f"a{k}": rows(1, 37, k)[0] for k in range(5)})
    together = costs.expected(P)
    assert all(
        (costs.expected(p[None])[0] == row).all() for p, row in zip(P, together, strict=True)
    )


@pytest.mark.parametrize(
    "row_costs",
    [{"fraud": 500, "fine": 0}, {"fine": 0, "*": 500}, {"*": 0, "fraud": 500}, [500, 0],
     (500.0, 0.0), np.array([500, 0])],
)  # fmt: skip
def test_forms_of_costs(row_costs):
    costs = Costs(["fraud", "fine"], {**FRAUD, "pass": row_costs})
    np.testing.assert_array_equal(costs.matrix, [[0, 20], [500, 0], [8, 8]])
    assert costs.actions == ("block", "pass", "call")


def test_classes_of_numbers_are_named_as_in_json():
    assert Costs([1, 2], {"a": {"1": 0, "2": 3}, "b": {1: 2, 2: 2}}).matrix.tolist() == [
        [0, 3], [2, 2],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"block": 1}, "two actions or more"),
        ([[1, 2], [3, 4]], "two actions or more"),
        ({"block": 1, "": 2}, "'' is not the name of an action"),
        ({"block": 1, "pass": {"fraud": 1}}, "costs: pass: no cost for 'fine'; each class needs"),
        ({"block": 1, "pass": {"fruad": 1, "*": 2}}, "costs: pass: 'fruad' is none of the 2"),
        ({"block": 1, "pass": {"fraud": "x", "fine": 1}}, "pass: fraud: 'x', expected a finite"),
        ({"block": 1, "pass": [1, 2, 3]}, "costs: pass: 3 costs for 2 classes"),
        ({"block": 1, "pass": [1, float("nan")]}, "costs: pass: fine: nan, expected a finite"),
        ({"block": True, "pass": 1}, "costs: block: True, expected a finite number"),
    ],
)
def test_refused_by_name(costs, message):
    with pytest.raises(ValueError, match=message):
        Costs(["fraud", "fine"], costs)


@pytest.mark.parametrize(
    ("P", "message"),
    [([[0.5, 0.6]], "row 0: probabilities sum to 1.1"), ([0.5, 0.5], "a single row"),
     ([[0.2, 0.3, 0.5]], r"shape \(1, 3\)")],
)  # fmt: skip
def test_rows_are_checked(P, message):
    with pytest.raises(InvalidPrediction, match=message):
        Costs(["fraud", "fine"], FRAUD).decide(P)


@pytest.mark.parametrize(
    "text",
    ["block:fraud=0,fine=20;pass:fraud=500,fine=0; call=8",
     ["block:fraud=0, fine=20", "pass:fraud=500,fine=0", "call = 8"],
     '{"block": {"fraud": 0, "fine": 20}, "pass": {"fraud": 500, "fine": 0}, "call": 8}'],
)  # fmt: skip
def test_costs_as_text(text):
    assert costs_of_text(text) == FRAUD


@pytest.mark.parametrize(
    ("text", "message"),
    [("block", "'block', expected ACTION:CLASS=COST"), ("block:fraud", "expected ACTION:CLASS"),
     ("block=x", "expected ACTION"), ("a=1;a=2", "'a' is named twice"),
     ("a:x=1,x=2,*=0", "names a class twice"),
     ('{"a": [1]}', "costs: Exp")],
)  # fmt: skip
def test_text_that_is_none(text, message):
    with pytest.raises(ValueError, match=message):
        costs_of_text(text)
