"""Predictions and labels are taken by timestamp, whatever came first."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can.kafka.order import Order

pytestmark = pytest.mark.fast


def records(stamps: list[int], kind: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(timestamp=t, kind=kind, n=n) for n, t in enumerate(stamps)]


stamps = st.lists(st.integers(0, 20)).map(sorted)


@given(stamps, stamps)
def test_sorted_sides_are_merged_predictions_first(p: list[int], labels: list[int]) -> None:
    order = Order("labels")
    order.add("labels", records(labels, "label"))
    order.add("in", records(p, "prediction"))
    taken = order.take(1000, exhausted=True)
    assert [(r.timestamp, r.kind == "label") for r in taken] == sorted(
        [(t, False) for t in p] + [(t, True) for t in labels]
    )


@given(stamps, stamps, st.integers(1, 5))
def test_each_side_keeps_its_order_in_any_portions(
    p: list[int], labels: list[int], most: int
) -> None:
    p, labels = p[::-1], labels[::-1]  # time may run backwards within a side
    order = Order("labels")
    order.add("in", records(p, "prediction"))
    order.add("labels", records(labels, "label"))
    taken = []
    while portion := order.take(most, exhausted=True):
        assert len(portion) <= most
        taken += portion
    for kind, side in (("prediction", p), ("label", labels)):
        assert [r.timestamp for r in taken if r.kind == kind] == side


def test_one_side_waits_while_the_other_has_lag() -> None:
    order = Order("labels")
    order.add("in", records([1, 2, 3], "prediction"))
    assert order.waits_for() == "labels"
    assert order.take(10, exhausted=False) == []
    order.add("labels", records([2], "label"))
    assert order.waits_for() is None
    assert [r.timestamp for r in order.take(10, exhausted=False)] == [1, 2, 2]
    assert order.waits_for() == "labels"
    assert [r.timestamp for r in order.take(10, exhausted=True)] == [3]


def test_without_labels_nothing_waits() -> None:
    order = Order(None)
    order.add("in", records([3, 1, 2], "prediction"))
    assert order.waits_for() is None
    assert [r.timestamp for r in order.take(2, exhausted=False)] == [3, 1]
    assert [r.timestamp for r in order.take(2, exhausted=False)] == [2]
