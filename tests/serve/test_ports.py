"""The ports on which tests start servers."""

import pytest

from tests.kafka.broker.broker import free_ports

pytestmark = pytest.mark.fast


def test_a_process_of_the_suite_never_runs_out_of_them():
    """One range has 200; the tests of servers alone start more."""
    ports = free_ports(450)
    assert len({*ports}) == 450
