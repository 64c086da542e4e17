"""Names that are there count: what comes by name is put in the order of the classes or refused."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest

from stream_can import Corrector, InvalidPrediction, UnknownClass
from tests.correctors import lived_in

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c"]
ROW = {"c": 0.5, "a": 0.2, "b": 0.3}
P = [0.2, 0.3, 0.5]


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        pd.Series(ROW),
        pd.Series(P),  # without names: by position
        pd.DataFrame([ROW]).iloc[0],
        pl.Series(P),
        tuple(P),
    ],
    ids=lambda row: type(row).__name__,
)
def test_one_row(row):
    got, want = Corrector(CLASSES), Corrector(CLASSES)
    assert got.process_one(row).tolist() == want.process_one(P).tolist()
    got.learn_one(row, "a")
    want.learn_one(P, "a")
    assert got.to_bytes() == want.to_bytes()


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame([ROW, ROW]),
        pd.DataFrame([P, P]),
        pl.DataFrame([ROW, ROW]),
        pl.DataFrame(np.array([P, P])),
        [P, P],
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_many_rows(rows):
    got, want = Corrector(CLASSES), Corrector(CLASSES)
    assert got.process_many(rows).tolist() == want.process_many([P, P]).tolist()
    labels = pd.Series(["a", "c"], index=[7, 3])
    got.learn_many(rows, labels)
    want.learn_many([P, P], ["a", "c"])
    assert got.to_bytes() == want.to_bytes()


def test_numbers_as_names_of_columns():
    frame = pl.DataFrame({"1": [0.3], "0": [0.7]})
    assert (
        Corrector(2).correct_many(frame).tolist()
        == Corrector(2).correct_many([[0.7, 0.3]]).tolist()
    )


@pytest.mark.parametrize(
    "row",
    [
        {"a": 0.5, "b": 0.5},
        {"a": 0.5, "b": 0.3, "d": 0.2},
        pd.Series(P, index=["a", "b", "d"]),
        pd.Series(P, index=[5, 6, 7]),
        np.ma.masked_array(P, [False, True, False]),
        {0.2, 0.3, 0.5},
    ],
    ids=lambda row: type(row).__name__,
)
def test_a_row_of_other_names_or_none_is_refused(row):
    corrector = Corrector(CLASSES)
    before = corrector.to_bytes()
    for call in (corrector.process_one, corrector.observe_one, corrector.explain_one):
        with pytest.raises(InvalidPrediction, match="predictions are"):
            call(row)
    assert corrector.to_bytes() == before


def test_frames_of_other_columns_are_refused():
    with pytest.raises(InvalidPrediction, match="are of 'a', 'b', 'd', expected the 3 classes"):
        Corrector(CLASSES).process_many(pd.DataFrame([P], columns=["a", "b", "d"]))


@pytest.mark.parametrize(
    "counts",
    [
        pd.Series(["c", "a", "c", "b", "c"]).value_counts(),
        {"c": 3, "a": 1, "b": 1},
        Counter("cacbc"),
        pd.Series([1, 1, 3]),
        [1, 1, 3],
    ],
    ids=lambda counts: type(counts).__name__,
)
def test_train_counts_by_name(counts):
    want = Corrector(CLASSES, train_counts=[1, 1, 3])
    assert Corrector(CLASSES, train_counts=counts).to_bytes() == want.to_bytes()


def test_train_counts_of_numbers():
    counts = pd.Series([2, 0, 2, 1, 2]).value_counts()
    want = Corrector(3, train_counts=[1, 1, 3])
    assert Corrector(3, train_counts=counts).to_bytes() == want.to_bytes()


@pytest.mark.parametrize(
    "counts",
    [
        {1.0, 2.0, 3.0},
        np.ma.masked_array([1, 1, 3], [1, 0, 0]),
        pd.Series([1, 2, 3], index=["a", "b", "x"]),
        pl.Series(["a", "b"]).value_counts(),
    ],
    ids=lambda counts: type(counts).__name__,
)
def test_train_counts_of_other_names_are_refused(counts):
    with pytest.raises(ValueError, match="train_counts: "):
        Corrector(CLASSES, train_counts=counts)


def test_classes_without_an_order_are_refused():
    for classes in ({"a", "b"}, frozenset("ab"), np.ma.masked_array(["a", "b"], [0, 1])):
        with pytest.raises(ValueError, match="expected a list in order of columns"):
            Corrector(classes)


def test_labels_without_an_order_are_refused():
    corrector = Corrector(CLASSES)
    masked = np.ma.masked_array(["a", "b"], [0, 1])
    for labels in ({"a", "b"}, {"a": 1, "b": 2}, masked, pd.DataFrame({"a": ["a", "b"]})):
        with pytest.raises(UnknownClass, match="expected one name per row, in order"):
            corrector.learn_many([P, P], labels)


EXTENSIONS = ["Float64", "Float32", "double[pyarrow]", "float[pyarrow]"]
"""Types of pandas beside numpy's."""


def of_extension(kind):
    """Two rows as an extension type, their columns in another order; and as numpy's."""
    frame = pd.DataFrame([P, P[::-1]], columns=list("abc"))
    return frame.astype(kind)[["c", "a", "b"]], frame.astype(kind).astype("float64")


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_frames_of_pandas_extension_types(kind):
    corrector, (extended, plain) = lived_in(), of_extension(kind)
    expected = corrector.correct_many(plain)
    np.testing.assert_array_equal(corrector.correct_many(extended), expected)
    mixed = plain.assign(b=extended["b"])
    np.testing.assert_array_equal(corrector.correct_many(mixed), expected)


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_rows_of_pandas_extension_types(kind):
    corrector, (extended, plain) = lived_in(), of_extension(kind)
    expected = corrector.correct_one(plain.iloc[1])
    np.testing.assert_array_equal(corrector.correct_one(extended.iloc[1]), expected)


def test_a_frame_of_pandas_integers():
    sure, corrector = pd.DataFrame([[0, 1, 0]], columns=list("abc")), lived_in()
    np.testing.assert_array_equal(
        corrector.correct_many(sure.astype("Int64")), corrector.correct_many(sure)
    )


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_what_is_missing_in_pandas_extension_types_is_refused(kind):
    corrector, (extended, _) = lived_in(), of_extension(kind)
    extended.iloc[1, 2] = pd.NA
    with pytest.raises(InvalidPrediction, match=r"row 1, column 'b': the probability is missing"):
        corrector.correct_many(extended)
    with pytest.raises(InvalidPrediction, match=r"entry 'b': the probability is missing \(NA\)"):
        corrector.correct_one(extended.iloc[1])
    with pytest.raises(InvalidPrediction, match="object, expected real numbers"):
        corrector.correct_many(extended.assign(a=["x", "y"]))


def test_data_frames_give_segments_among_other_columns():
    rows = np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    table = {"x": ["a", None, "b"], "other": [0.5, 0.25, 0.125]}
    found = []
    for segments in ({"x": table["x"]}, pd.DataFrame(table), pl.DataFrame(table)):
        corrector = Corrector(2, segments=["x"])
        corrector.learn_many(rows, [0, 1, 1], segments=segments)
        found.append(
            (corrector.process_many(rows, segments=segments).tobytes(), corrector.to_bytes())
        )
    assert found[0] == found[1] == found[2]
    assert list(corrector.segment_values("x")) == ["a", "b"]
