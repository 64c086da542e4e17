"""Marks of labelled predictions are a set of offsets whose range moves up."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can.errors import SnapshotMismatch
from stream_can.stream.marks import Marks

pytestmark = pytest.mark.fast

steps = st.lists(st.tuples(st.sampled_from(["mark", "forget", "store"]), st.integers(0, 300)))


@given(st.integers(0, 100), steps)
def test_as_a_set_says(begin, steps):
    marks, wanted, low = Marks(begin), set(), begin
    for what, number in steps:
        if what == "mark" and number >= low:
            marks.mark(number)
            wanted.add(number)
        elif what == "forget":
            low = max(low, number)
            marks.forget(number)
        else:
            stored, marks = marks.dump(), Marks(500)
            marks.load(stored, low, 400)
        assert {n for n in range(low, 400) if n in marks} == {n for n in wanted if n >= low}


def test_the_memory_is_that_of_the_range():
    marks = Marks()
    for n in range(100_000):
        marks.mark(n)
        marks.forget(n - 1000)
    assert len(marks._bits) < 130
    assert len(marks.dump()[1]) < 40


@pytest.mark.parametrize(
    "data",
    [(1, zlib.compress(b"\x01")), (0, b"nonsense"), (0, zlib.compress(bytes(100))), (0, b""),
     (0, zlib.compress(b"\x01")[:-1]), (800, zlib.compress(b"\x01"))],
)  # fmt: skip
def test_what_is_none_is_refused(data):
    with pytest.raises(SnapshotMismatch, match="marks of labelled predictions"):
        Marks().load(data, 0, 64)


@pytest.mark.parametrize("data", [None, (0, b"")])
def test_a_range_that_no_memory_holds_is_refused(data):
    with pytest.raises(
        SnapshotMismatch, match="recent predictions at offsets 0 to 9007199254740992"
    ):
        Marks().load(data, 3, 1 << 53)


def test_offsets_far_away_take_no_memory():
    marks = Marks()
    marks.mark(7)
    marks.mark(1 << 53)
    assert (1 << 53) in marks
    assert marks.begin == 1 << 53
