"""One way from a label to its column, as lenient as the place where it was written."""

from __future__ import annotations

import math

import pytest

from stream_can import UnknownClass
from stream_can.method.classes import ClassIndex

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("names", "written", "label", "column"),
    [
        (["a", "b"], "exact", "b", 1),
        (["a", "b"], "exact", 1, None),
        ([1, 2], "exact", "1", None),
        ([1, 2], "exact", 2.0, 1),
        ([0, 1], "json", "1", 1),
        ([0, 1], "json", 1.0, 1),
        ([0, 1], "json", "1.0", None),
        ([0, 1], "json", True, None),
        ([False, True], "json", True, 1),
        ([False, True], "json", "true", 1),
        ([False, True], "json", "True", None),
        (["a", "b"], "json", 1, None),
        (["a", "b"], "json", None, None),
        ([2**53, 2**53 + 1], "json", 2**53 + 1, 1),
        ([0, 1], "file", "1.0", 1),
        ([0, 1], "file", "01", 1),
        (["1.0", "2.0"], "file", 2, 1),
        ([False, True], "file", "True", 1),
        (["False", "True"], "file", True, 1),
        (["a", "b"], "file", 1, 1),
        (["a", "b"], "file", "1.0", 1),
        (["a", "b"], "file", 2, None),
        (["a", "b"], "file", -1, None),
        (["a", "b"], "file", 0.5, None),
        (["a", "b"], "file", "inf", None),
        (["a", "7"], "file", 1, None),  # a class is named by a number: labels are no columns
        (["a", "b"], "file", None, -1),
        (["a", "b"], "file", math.nan, -1),
        (["a", "b"], "file", ["a"], None),
    ],
)
def test_a_label_and_its_column(names, written, label, column):
    index = ClassIndex(names, written)
    if column is None:
        with pytest.raises(UnknownClass, match="is none of the 2 classes"):
            index.column(label)
    else:
        assert index.column(label) == column


def test_two_classes_of_one_name_are_refused():
    with pytest.raises(ValueError, match="'a' is named twice"):
        ClassIndex(["a", "b", "a"])
    with pytest.raises(ValueError, match="two are '1' in JSON"):
        ClassIndex([1, "1"], "json")


def test_of_names_that_end_in_numbers_the_number_is_the_class():
    """As of Hugging Face's models whose classes have no names of their own."""
    for written in ("json", "file"):
        index = ClassIndex(["LABEL_1", "LABEL_3", "LABEL_2"], written)
        assert [index[n] for n in (1, 2, 3.0)] == [0, 2, 1]
        with pytest.raises(UnknownClass):
            index[0]
    with pytest.raises(UnknownClass):
        ClassIndex(["LABEL_1", "cat"], "json")[1]
    with pytest.raises(UnknownClass):
        ClassIndex(["LABEL_1", "LABEL_2"])[1]
