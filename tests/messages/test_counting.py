"""How many elements a JSON array has, told from its text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can.messages.counting import elements

pytestmark = pytest.mark.fast
SCALARS = st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(alphabet='a"\\,[]{} \n')
VALUES = st.recursive(
    SCALARS, lambda x: st.lists(x) | st.dictionaries(st.text(alphabet='a"\\,[]{}'), x)
)


@given(st.lists(VALUES), st.sampled_from([None, 1]), st.integers(0, 9))
def test_as_many_as_json_finds(values: list[object], indent: int | None, most: int) -> None:
    text = json.dumps(values, indent=indent).encode()
    assert elements(text, most) == min(len(values), most + 1)


@given(st.binary() | st.text(alphabet='[]{},"\\ 1').map(str.encode))
def test_of_what_is_no_array_any_number(text: bytes) -> None:
    assert 0 <= elements(text, 5) <= 6
