"""docs/serve.md as it stands, the settings and commands of docker/serve.yaml, and the client."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
import yaml

from tests.kafka.broker.broker import free_ports
from tests.pages import ROOT, blocks, run_sh, staying
from tests.programs import PATIENCE, wait

PAGE = ROOT / "docs/serve.md"


def answers(url):
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").status_code == 200


@pytest.mark.needs("curl")
def test_the_page(tmp_path, capsys):
    (port,) = free_ports(1)
    found = [(kind, text.replace("8000", str(port))) for kind, text in blocks(PAGE)]
    (config,) = (text for kind, text in found if kind == "toml")
    (tmp_path / "app.toml").write_text(f"http_port = {port}\n{config}")
    start, *commands = [text for kind, text in found if kind == "sh"]
    shown = [json.loads(text) for kind, text in found if kind == "json"]
    with staying(start, tmp_path, tmp_path / "log"):
        wait("it answers", lambda: answers(f"http://127.0.0.1:{port}"))
        first, second = (json.loads(run_sh(command)) for command in commands)
        assert first["probs"] == pytest.approx(shown[0]["probs"], abs=1e-9)
        assert second == shown[1]
        (code,) = (text for kind, text in found if kind == "python")
        exec(compile(code, str(PAGE), "exec"), {})
    assert "['learned', 'learned']" in capsys.readouterr().out
    assert "this is a bug" not in (tmp_path / "log").read_text()


def test_the_statuses_that_the_page_names_are_those_of_the_description():
    from stream_can.serve.openapi import WHY

    (table,) = re.findall(r"\| status \| why \|\n(.*?)\n\n", PAGE.read_text(), re.S)
    assert {int(code) for code in re.findall(r"\b[45]\d\d\b", table)} == {*WHY} - {404, 415}


def test_what_the_container_runs(tmp_path):
    """Its command, environment and health check, outside of a container."""
    (service,) = yaml.safe_load((ROOT / "docker/serve.yaml").read_text())["services"].values()
    (port,) = free_ports(1)
    env = service["environment"] | {
        "STREAM_CAN_TOKEN": "a-token-of-this-test",
        "STREAM_CAN_STATE": str(tmp_path / "state.sqlite"),
        "STREAM_CAN_HTTP_PORT": str(port),
    }
    (mounted,) = (one for one in service["volumes"] if one.endswith(":ro"))
    source, target, _ = mounted.split(":")
    config = (ROOT / "docker" / source).resolve()
    assert tomllib.loads(config.read_text())
    command = [str(config) if part == target else part for part in service["command"]]
    given = " ".join(f"{name}={value}" for name, value in env.items())
    (check,) = [service["healthcheck"]["test"][-1].replace("8000", str(port))]
    with staying(f"env {given} stream-can {' '.join(command)}", tmp_path, tmp_path / "log"):
        url = f"http://127.0.0.1:{port}"
        wait("it answers", lambda: answers(url))
        subprocess.run([sys.executable, "-c", check], check=True, timeout=PATIENCE)
        asked = {"id": 1, "probs": [0.3, 0.3, 0.4]}
        assert httpx.post(f"{url}/correct", json=asked).status_code == 401
        headers = {"Authorization": "Bearer a-token-of-this-test"}
        assert httpx.post(f"{url}/correct", json=asked, headers=headers).status_code == 200
    assert (tmp_path / "state.sqlite").exists()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert lines[-1]["message"] == "SIGINT: stopping"


def test_the_client_gains(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples/serve_client.py", "--flights", "8000"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    numbers = re.search(
        r"accuracy ([\d.]+) -> ([\d.]+), log loss ([\d.]+) -> ([\d.]+)", done.stdout
    )
    before, after, loss_before, loss_after = map(float, numbers.groups())
    assert after > before + 0.005
    assert loss_after < loss_before - 0.02
    assert not [*Path(tmp_path).iterdir()]
