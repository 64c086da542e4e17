"""The broker of `make broker`: on the port that is asked for, and its topics outlive it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.broker.broker import free_ports
from tests.pages import ROOT, run_sh
from tests.programs import PATIENCE


@pytest.mark.long
def test_it_keeps_its_topics_until_they_are_to_go(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    folder = tmp_path / "broker"

    def broker(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tests.kafka.broker.broker", *arguments, f"--folder={folder}"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    def topics(*arguments: str) -> str:
        script = f"kafka/bin/kafka-topics.sh --bootstrap-server 127.0.0.1:{port}"
        return run_sh(" ".join([script, *arguments]), folder)

    try:
        assert f"127.0.0.1:{port}" in broker("start", f"--port={port}")
        topics("--create --topic predictions --partitions 2")
        said = broker("start", f"--port={port}", code=1)
        assert f"127.0.0.1:{port} already: `make broker-stop` ends it" in said
        assert "stopped" in broker("stop")
        with socket.create_server(("127.0.0.1", port)):
            assert f"port {port} is in use" in broker("start", f"--port={port}", code=1)
        broker("start", f"--port={port}")
        assert "predictions" in topics("--list").split()
        (folder / "app.toml").write_text("mine")  # where the page's commands run
    finally:
        said = broker("stop", "--delete")
    assert "deleted" in said
    assert broker("stop") == ""
    assert {path.name for path in folder.iterdir()} == {"kafka", "app.toml"}
