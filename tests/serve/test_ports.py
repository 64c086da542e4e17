"""The ports on which tests start servers."""

import socket
import subprocess

import pytest

from tests.kafka.broker.broker import free_ports
from tests.programs import PATIENCE
from tests.serve.serving import COMMAND

pytestmark = pytest.mark.fast


def test_a_process_of_the_suite_never_runs_out_of_them():
    """One range has 200; the tests of servers alone start more."""
    ports = free_ports(450)
    assert len({*ports}) == 450


@pytest.mark.parametrize("name", ["http_port", "label_port"])
def test_a_taken_port_leaves_no_state_behind(tmp_path, name):
    """A file of a failed start would refuse the next one, with other classes."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = {"http_port": free_ports(1)[0], name: port}
        options = [f"--{name.replace('_', '-')}={port}" for name, port in ports.items()]
        done = subprocess.run(
            [*COMMAND, "--classes", "a,b", "--ask", "0.5", *options],
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert f"{name} {port}" in done.stderr
    assert list(tmp_path.iterdir()) == []
