"""What a replay adds up beside scores: delays, classes, names as text."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can.replay import classes, delays, names
from stream_can.replay.delays import Delays
from stream_can.replay.names import readable
from tests.replay.streams import ODD_NAMES

pytestmark = pytest.mark.fast


@given(
    st.lists(st.floats(1e-6, 1e15), min_size=1, max_size=200), st.integers(1, 9), st.floats(0, 1)
)
def test_quantiles_of_delays_are_right_to_one_percent(values, parts, q):
    found = Delays()
    for part in np.array_split(np.array(values), parts):
        found.add(part)
    exact = sorted(values)[max(int(np.ceil(q * len(values))), 1) - 1]
    assert found.quantile(q) == pytest.approx(exact, rel=0.0101)
    assert found.summary()["longest"] == max(values)


def test_a_label_known_before_its_prediction_has_no_delay():
    found = Delays()
    assert found.summary() is None
    found.add(np.array([-5, -1, 0]))
    found.add(np.array([2], "timedelta64[s]"))
    assert (found.shortest, found.longest, found.quantile(0.75)) == (0, 2e6, 0)


@given(st.text(max_size=300))
def test_a_readable_name_is_one_line_of_any_encoding(name):
    shown = readable(name)
    assert len(shown) <= 80
    assert shown.splitlines() in ([shown], [])
    shown.encode()


def test_names_that_can_be_read_are_left_alone():
    for name in ODD_NAMES:
        assert readable(name, 200) == name


@pytest.mark.parametrize("module", [classes, delays, names])
def test_doctests(module):
    failed, tried = doctest.testmod(module)
    assert tried > 1
    assert failed == 0
