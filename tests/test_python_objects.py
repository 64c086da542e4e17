"""Rows, ids, labels and classes as notebooks have them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from stream_can import Corrector, Learner
from stream_can.errors import InvalidPrediction

pytestmark = pytest.mark.fast

P = np.array([[0.25, 0.75], [0.5, 0.5], [0.375, 0.625]])
NAMES = ["a", "b"]


def scored(row, order=(1, 0)):
    return [{"label": NAMES[k], "score": row[k]} for k in order]


@pytest.mark.parametrize(
    "rows",
    [
        [scored(row) for row in P.tolist()],
        [scored(row, (1, 0) if i else (0, 1)) for i, row in enumerate(P.tolist())],
        [{"b": b, "a": a} for a, b in P.tolist()],
        pd.Series(P.tolist()),
        pd.Series([*P], index=["x", "y", "z"]),
        pd.DataFrame({"p": P.tolist()}),
        np.array([*map(tuple, P.tolist()), None], object)[:-1],
    ],
    ids=range(7),
)
def test_many_rows(rows):
    assert Corrector(NAMES).correct_many(rows).tolist() == Corrector(NAMES).correct_many(P).tolist()


@pytest.mark.parametrize("row", [scored([0.25, 0.75]), {"b": 0.75, "a": 0.25}])
def test_one_row(row):
    assert Corrector(NAMES).correct_one(row).tolist() == Corrector(NAMES).correct_one(P[0]).tolist()


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (P[:, 1], "scores of the second class, rows are np.column_stack([1 - p, p])"),
        (100 * P, "percentages? Divide them by their sum: P / P.sum(axis=-1, keepdims=True)"),
        (np.log(P), "logits? Softmax them first: stream_can.softmax(logits), or set logits"),
        (pd.Series([[0.25, 0.75], [1.0]]), "row 1: 1 probabilities, and row 0 has 2"),
        ([{"a": 0.5, "b": 0.5}, {"a": 1.0}], "the rows do not all name the same classes"),
        ([scored(P[0], (1,))], "predictions are of 'b', expected the 2 classes"),
    ],
)
def test_what_is_not_read_is_told(rows, says):
    with pytest.raises(InvalidPrediction, match=re.escape(says)):
        Corrector(NAMES).correct_many(rows)


def test_an_entry_that_is_infinite_is_no_logit():
    with pytest.raises(InvalidPrediction) as error:
        Corrector(NAMES).correct_one([-np.inf, 1.0])
    assert "logits" not in str(error.value)


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(3),
        [*np.arange(3)],
        pd.Series([0, 1, 2], dtype="Int64"),
        np.array([0, 1, 2], np.uint8),
    ],
    ids=range(4),
)
def test_ids_of_numpy_and_pandas_are_those_of_python(ids):
    learner = Learner(Corrector(NAMES))
    learner.process_many(ids, P)
    assert learner.label(2, np.str_("a")) == "learned"
    assert learner.label(np.int64(1), "b") == "learned"
    assert learner.label_many(ids, ["b", "b", "a"]) == ["learned", "repeated", "repeated"]
    again = Learner.from_bytes(learner.to_bytes())
    assert again.label(0, "b") == "repeated"


def test_ids_as_texts_and_missing_ones():
    learner = Learner(Corrector(NAMES))
    learner.process_many(np.array(["x", "y", "z"]), P)
    learner.process_many(pd.Series([1, None, 3], dtype="Int64"), P)
    learner.process(np.str_("w"), P[0])
    assert learner.label_many(["x", "w", 3], ["a"] * 3) == ["learned"] * 3
    assert Learner.from_bytes(learner.to_bytes()).label("y", "a") == "learned"


@pytest.mark.parametrize("classes", [{0: "a", 1: "b"}, {1: "b", 0: "a"}, {"0": "a", "1": "b"}])
def test_id2label_is_the_classes(classes):
    assert Corrector(classes).classes == ("a", "b")


@pytest.mark.parametrize("classes", [{"a": 0, "b": 1}, {1: "a", 2: "b"}, {0: 7, 1: 8}])
def test_other_dicts_are_refused(classes):
    with pytest.raises(ValueError, match="classes: a dict, expected a list"):
        Corrector(classes)
