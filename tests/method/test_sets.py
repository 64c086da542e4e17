"""Prediction sets, of all rows and by group, beside the oracle; what by group promises."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Corrector, snapshot
from stream_can.method.receipts import TAIL, size
from tests.method.sets_oracle import OracleSets, scores

pytestmark = pytest.mark.fast

TENANTS = ["a", "b", None, "c"]


def corrector_of(by, **settings):
    settings = {"sets": 0.8, "half_life": 100.0, "segments": ["tenant"]} | settings
    return Corrector(3, sets_by=by, **settings)


@pytest.mark.parametrize("by", [None, "class", "tenant"])
def test_thetas_are_those_of_the_oracle(by):
    """Labels early and late, of other weights, and without a receipt; a snapshot on the way."""
    rng = np.random.default_rng(5)
    P, corrector = rng.dirichlet(np.full(3, 0.5), 110), corrector_of(by)
    oracle = OracleSets(0.2, 100.0)
    tenants = [TENANTS[min(i // 28 + int(rng.integers(2)), 3)] for i in range(110)]
    waiting, differ = [], 0
    for i, (p, tenant) in enumerate(zip(P, tenants, strict=True)):
        if i == 70:
            corrector = Corrector.from_bytes(corrector.to_bytes())
        given = {"tenant": tenant}
        row, receipt = corrector.process_one(p, receipt=True, segments=given)
        group = {None: None, "class": int(row.argmax()), "tenant": tenant}[by]
        sent = oracle.send(receipt[-TAIL - 3 : -TAIL], group)
        assert receipt[-TAIL : -TAIL + 2] == pytest.approx(
            [sent.theta, sent.theta_of_all], abs=2e-5
        )
        differ += sent.theta != sent.theta_of_all
        inside = scores(row) <= sent.theta
        inside[row.argmax()] = True
        assert corrector.set_of(row, receipt) == sorted(
            np.flatnonzero(inside), key=lambda k: -row[k]
        )
        waiting.append((p, receipt, given, group, sent, row))
        for _ in range(int(rng.integers(3))):
            if len(waiting) < 3:
                continue
            p, receipt, given, group, sent, row = waiting.pop(int(rng.integers(2)))
            y = int(rng.choice(3, p=[0.6, 0.2, 0.2]))
            weight = float(rng.choice([1.0, 0.3, 2.0]))
            if rng.random() < 0.2:  # the row of a label without its receipt goes by once more
                row = corrector.correct_one(p, segments=given).astype(np.float32)
                group = int(row.argmax()) if by == "class" else group
                receipt = sent = None
            corrector.learn_one(p, y, receipt=receipt, segments=given, weight=weight)
            oracle.learn(np.float32(row), y, group, sent, weight)
    assert (differ > 60) == (by is not None)


@pytest.mark.parametrize("by", ["class", "tenant"])
def test_a_group_keeps_the_share_where_all_rows_together_do_not(by):
    """Rows of class 0 and tenant a are right less often than they say, the others more often."""
    rng = np.random.default_rng(6)
    n = 2000
    group = rng.integers(2, size=n)
    P = np.where(group[:, None] == 0, [0.6, 0.3, 0.1], [0.1, 0.6, 0.3]) + rng.uniform(
        0, 0.1, (n, 3)
    )
    P /= P.sum(axis=1, keepdims=True)
    chance = np.where(group[:, None] == 0, [0.3, 0.2, 0.5], [0.02, 0.95, 0.03])
    y = (rng.random(n)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    covered = {}
    for sets_by in (None, by):
        settings = {"paths": ["raw"], "sets_by": sets_by, "sets": 0.8}
        if by == "tenant":
            settings |= {"paths": ["raw", "vector"], "segments": ["tenant"]}
        corrector, inside = Corrector(3, **settings), np.zeros(n, bool)
        for i in range(n):
            given = {"tenant": "ab"[group[i]]} if by == "tenant" else None
            p = P[i] if by == "class" else P[0]
            row, receipt = corrector.process_one(p, receipt=True, segments=given)
            inside[i] = y[i] in corrector.set_of(row, receipt)
            corrector.learn_one(p, y[i], receipt=receipt, segments=given)
        late = np.arange(n) > 500
        covered[sets_by] = [inside[late & (group == g)].mean() for g in (0, 1)]
    assert covered[None][0] < 0.7
    assert covered[by][0] == pytest.approx(0.8, abs=0.03)
    assert covered[by][1] > 0.9  # the likeliest class alone


def test_all_rows_have_the_theta_that_they_would_have_without_groups():
    """To the bit, in every receipt: a group without labels has today's sets."""
    rng = np.random.default_rng(7)
    P, y = rng.dirichlet(np.ones(4), 300), rng.integers(0, 4, 300)
    plain, grouped = Corrector(4, sets=0.9), Corrector(4, sets=0.9, sets_by="class")
    for start in range(0, 300, 30):
        part = slice(start, start + 30)
        rows, receipts = plain.process_many(P[part], receipt=True)
        same_rows, by_class = grouped.process_many(P[part], receipt=True)
        assert rows.tobytes() == same_rows.tobytes()
        assert receipts[:, -TAIL].tobytes() == by_class[:, -TAIL + 1].tobytes()
        plain.learn_many(P[part], y[part], receipts=receipts)
        grouped.learn_many(P[part], y[part], receipts=by_class)
    assert not np.array_equal(by_class[:, -TAIL], by_class[:, -TAIL + 1])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sets_by": "class"}, "sets_by: of prediction sets; give their share too, sets=0.9"),
        ({"sets": 0.9, "sets_by": "tenant"},
         "sets_by: 'tenant', expected the name of a segment, or class: class"),
        ({"sets": 0.9, "sets_by": "x", "segments": ["tenant"]},
         "sets_by: 'x', expected the name of a segment, or class: class, tenant"),
        ({"sets": 0.9, "sets_by": "class", "segments": ["class"]},
         "sets_by: class is the predicted one, and a segment; rename the segment"),
        ({"sets": 0.9, "sets_by": 1}, "sets_by: 1, expected a text: groups of rows"),
    ],
)  # fmt: skip
def test_groups_that_are_none_are_refused_by_name(settings, why):
    with pytest.raises(ValueError, match=f"^{why}"):
        Corrector(3, **settings)


@pytest.mark.parametrize("by", ["class", "tenant"])
def test_another_promise_starts_over_and_so_does_a_successor(by):
    corrector = corrector_of(by)
    P, given = np.random.default_rng(8).dirichlet(np.ones(3), 60), {"tenant": [*"ab"] * 30}
    corrector.learn_many(P, [0, 1, 2] * 20, segments=given)
    data = corrector.to_bytes()
    assert Corrector.from_bytes(data).sets_by == by
    assert Corrector.from_bytes(data, sets=0.8, sets_by=by).to_bytes() == data
    for changed in (
        Corrector.from_bytes(data, sets=0.8), Corrector.from_bytes(data, sets=0.7, sets_by=by),
        Corrector.from_bytes(data, sets_by={"class": "tenant", "tenant": "class"}[by]),
        corrector.successor(),
    ):  # fmt: skip
        _, arrays = snapshot.decode(changed.to_bytes())
        assert not arrays["sets.groups"].any()
        assert not arrays["values"][:, -2:].any()
        assert not arrays["sets.labels"].any()
    _, arrays = snapshot.decode(data)
    groups = {"class": arrays["sets.groups"], "tenant": arrays["values"][:, -2:]}[by]
    assert groups[:, 1].sum() == 60
    never = Corrector(3, segments=["tenant"], half_life=100.0)
    never.learn_many(P, [0, 1, 2] * 20, segments=given)
    assert Corrector.from_bytes(data, sets=None).to_bytes() == never.to_bytes()


def test_fit_teaches_groups_and_a_new_class_is_one_more():
    rng = np.random.default_rng(9)
    P, y = rng.dirichlet(np.ones(3), 90), rng.integers(0, 3, 90)
    fitted = corrector_of("tenant")
    fitted.fit(P, y, segments={"tenant": [*"aab"] * 30})
    _, arrays = snapshot.decode(fitted.to_bytes())
    assert sorted(arrays["values"][:, -1].tolist()) == [30, 60]
    corrector = corrector_of("class")
    row, receipt = corrector.process_one(P[0], receipt=True)
    corrector._add_class(3)
    corrector.learn_one([*P[0], 0], 3, receipt=receipt)  # its set was of three classes
    _, arrays = snapshot.decode(corrector.to_bytes())
    assert arrays["sets.groups"][:, 1].tolist() == np.eye(4)[row.argmax()].tolist()


def test_a_receipt_with_a_group_that_is_none_moves_all_rows_alone():
    for group in (-1.0, 3.0, np.nan, 1e30):
        corrector = corrector_of("class")
        _, receipt = corrector.process_one([0.2, 0.3, 0.5], receipt=True)
        assert len(receipt) == size(3, corrector.n_sent, sets=True)
        receipt[-3] = group
        corrector.learn_one([0.2, 0.3, 0.5], 1, receipt=receipt)
        _, arrays = snapshot.decode(corrector.to_bytes())
        assert not arrays["sets.groups"].any()
        assert corrector.set_counts == (1, 1)
