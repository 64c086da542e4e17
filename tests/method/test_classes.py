"""One way from a label to its column, as lenient as the place where it was written."""

from __future__ import annotations

import math
import re

import numpy as np
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
        ([0, 1], "json", "1.0", 1),
        ([0, 1], "json", True, 1),
        ([1, 0], "json", "False", 1),
        ([0, 1, 2], "json", True, None),
        ([1, 2], "json", True, None),
        ([False, True], "json", True, 1),
        ([False, True], "json", "true", 1),
        ([False, True], "json", "True", 1),
        ([0, 1], "json", "t", 1),
        (["t", "f"], "json", "F", 1),
        (["fine", "fraud"], "json", True, None),
        (["cat", "dog"], "json", " dog  ", 1),
        (["CAT", "DOG"], "json", "dog", 1),
        (["a", "b"], "exact", "B", None),
        (["dog", "Dog"], "json", "Dog", 1),
        (["dog", "Dog"], "json", "DOG", None),
        (["a", "b"], "json", "NA", None),
        (["a", "b"], "json", "", None),
        (["a", "b"], "json", [0, 1], 1),
        (["a", "b"], "json", [1.0, 0.0], 0),
        (["a", "b"], "json", [False, True], 1),
        (["a", "b"], "json", "[0, 1]", 1),
        (["a", "b"], "json", "[0 1]", 1),
        (["a", "b"], "json", {"a": 0, "b": 1}, 1),
        (["a", "b"], "json", np.array([0, 1]), 1),
        (["a", "b"], "json", ["b"], 1),
        (["a", "b"], "json", [1, 1], None),
        (["a", "b"], "json", [0, 0], None),
        (["a", "b"], "json", [0.1, 0.9], None),
        (["a", "b"], "json", [0, 1, 0], None),
        (["a", "b"], "json", {"a": 1, "b": 1}, None),
        (["a", "b"], "json", ["c"], None),
        (["a", "b"], "json", [[0, 1]], None),
        (["a", "b"], "exact", [0, 1], None),
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
        *(
            (["a", "b"], "file", text, -1)
            for text in ("", " ", "NA", "N/A", "nan", "NaN", "null", "NULL", "None", "<NA>", "\\N")
        ),
        (["na", "b"], "file", "NA", 0),  # a class has that name
        (["a", "None"], "file", "None", 1),
        (["a", "b"], "file", ["a"], 0),
    ],
)
def test_a_label_and_its_column(names, written, label, column):
    index = ClassIndex(names, written)
    if column is None:
        with pytest.raises(UnknownClass, match=r"is none of the \d classes"):
            index.column(label)
    else:
        assert index.column(label) == column


@pytest.mark.parametrize(
    ("names", "label", "hint"),
    [
        (["healthy", "ill"], "healthyy", "did you mean 'healthy'?"),
        (["a", "b"], [0.1, 0.9], "argmax it"),
    ],
)
def test_a_file_is_told_what_its_label_may_be(names, label, hint):
    with pytest.raises(UnknownClass, match=re.escape(hint)):
        ClassIndex(tuple(names), "file").column(label)


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
