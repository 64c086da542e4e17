"""Forms of probabilities: what goes in as one comes out as the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector
from stream_can.messages.fields import Fields
from stream_can.messages.messages import Messages
from stream_can.messages.probability_formats import Forms
from stream_can.messages.records import Record
from stream_can.method.normalise import divided
from stream_can.method.rows import rounded
from tests.messages.stream import corrected

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c", "d"]


def handled(corrector, *values, **options):
    """The probabilities of the outputs, and the reasons of the dead letters."""
    records = [
        Record("in", 0, i, 0, b"k", value if isinstance(value, bytes) else line(value))
        for i, value in enumerate(values)
    ]
    result = corrected(corrector, records, **options)
    reasons = [dict(o.headers)["__connect.errors.exception.message"] for o in result.dead_letters]
    return [json.loads(o.value)["probs"] for o in result.outputs], reasons


def line(probs):
    return json.dumps({"probs": probs}).encode()


def test_the_k_largest_leave_the_rest_to_the_training_mix():
    corrector = Corrector(CLASSES, train_counts=[7, 5, 2, 0])  # with one more each: 8, 6, 3, 1
    row = [0.5, 0.3 * 6 / 7, 0.2, 0.3 * 1 / 7]
    want = corrector.correct_one(row)
    best = np.argsort(-want, kind="stable")[:2]
    for probs in (
        {"a": 0.5, "c": 0.2},
        [{"label": "a", "score": 0.5}, {"label": "c", "score": 0.2}],
    ):
        (out,), _ = handled(corrector, probs)
        assert isinstance(out, type(probs))
        if isinstance(out, list):
            out = {entry["label"]: entry["score"] for entry in out}
        assert list(out) == [CLASSES[i] for i in best]
        assert list(out.values()) == pytest.approx(want[best])


def test_a_list_of_all_classes_comes_back_sorted():
    (out,), _ = handled(
        Corrector([1, 2]), [{"label": "1", "score": 0.25}, {"label": 2, "score": 0.75}]
    )
    assert [entry["label"] for entry in out] == [2, 1]
    assert sum(entry["score"] for entry in out) == pytest.approx(1)


@given(st.integers(1, 6), st.data())
def test_no_form_loses_a_probability(m, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    row = rng.dirichlet(np.full(m, 0.5)).tolist()
    names = [str(i) for i in range(m)]
    forms = Forms(names)
    order = sorted(range(m), key=lambda i: -row[i])
    k = data.draw(st.integers(1, m))
    full, form = forms.parse({names[i]: row[i] for i in order})
    assert full == row
    assert form.of(row) == {names[i]: row[i] for i in order}
    top, form = forms.parse({names[i]: row[i] for i in order[:k]})
    assert [top[i] for i in order[:k]] == [row[i] for i in order[:k]]
    assert sum(top) == pytest.approx(1) or k == m
    if k < m:
        assert list(form.of(row)) == [names[i] for i in order[:k]]


@given(st.integers(1, 300), st.integers(1, 12), st.integers(0, 2**32))
def test_rounded_rows_sum_to_one(m, digits, seed):
    rng = np.random.default_rng(seed)
    P = np.vstack([rng.dirichlet(np.full(m, 0.3), 3), np.full((1, m), 1 / m), np.eye(m)[:1]])
    Q = rounded(P, digits)
    units = Q * 10.0**digits
    assert np.abs(units - np.rint(units)).max() < 1e-3
    assert (np.rint(units).sum(axis=1) == 10**digits).all()
    assert np.abs(Q - P).max() <= 1.002 / 10**digits
    assert (Q >= 0).all()


def test_many_uniform_classes_with_few_digits_are_no_zeros():
    corrector, fields = Corrector(213), Fields(digits=2)
    (out,), _ = handled(corrector, [1 / 213] * 213, fields=fields)
    assert sum(out) == pytest.approx(1)
    back, reasons = handled(corrector, out, fields=fields)  # and can be read again
    assert (len(back), reasons) == (1, [])


def test_rounded_rows_are_read():
    corrector = Corrector(["a", "b", "c"])
    out, reasons = handled(corrector, [0.33, 0.33, 0.33], [0.3, 0.3, 0.3], [0.99, 0.01, 0.01])
    assert len(out) == 3
    assert reasons == []
    out, reasons = handled(
        corrector, [0.5, 0.5, 0.5], [1, 1, 0], [0.334, 0.334, 0.334], [0.2, 0.2, 0.25]
    )
    assert len(out) == 0
    assert [reason.partition(b":")[0] for reason in reasons] == [b"probs"] * 4


def test_scores_are_normalised_where_asked():
    corrector, fields = Corrector(["a", "b"]), Fields(normalise="always")
    want = corrector.correct_one([0.25, 0.75])
    out, reasons = handled(corrector, [1, 3], [0, 0], [-1, 2], fields=fields)
    assert out == [want.tolist()]
    assert reasons[0] == b"probs: probabilities sum to 0, expected 1 (within 0.001)"
    assert len(reasons) == 2


def test_what_was_divided_is_counted():
    P = np.array([[0.33, 0.33, 0.33], [0.2, 0.3, 0.5], [0.5, 0.5, 0.5]])
    Q, n = divided(P, "rounded")
    assert n == 1
    assert Q[0] == pytest.approx([1 / 3] * 3)
    assert Q[1:].tolist() == P[1:].tolist()
    records = [Record("in", 0, 0, 0, b"k", line([0.33, 0.33, 0.33]))]
    assert corrected(Corrector(3), records).normalised == 1


def test_no_answer_is_larger_than_was_said():
    names = ["a" * 50, "b", "c"]
    messages = Messages(names)
    prediction = messages.read(line({"b": 0.9}))
    long = messages.write(prediction, np.array([0.9, 0.05, 0.05]))
    assert b"a" * 50 in long
    assert len(long) <= messages.largest(prediction) <= 2 * len(line({"b": 0.9})) + messages.slack
