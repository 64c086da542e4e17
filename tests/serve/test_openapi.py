"""The description at /openapi.json, held against what the server does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import PATIENCE
from tests.serve.serving import Server

TOKEN = "a-token-of-these-tests"


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.release),
        {"token": TOKEN, "model": "model", "segments": ["a.b"]},
        pytest.param({"rows": "multilabel"}, marks=pytest.mark.release),
        pytest.param({"classes": None, "rows": "sparse"}, marks=pytest.mark.release),
    ],
)
def test_the_server_does_what_it_says(tmp_path, settings):
    """Requests made of the description, right ones and wrong ones: no other status, type or shape
    of an answer comes than it names, and no fault of the server's."""
    with Server(tmp_path, **settings) as server:
        program = Path(sys.executable).parent / "schemathesis"
        header = ["-H", f"Authorization: Bearer {TOKEN}"] if "token" in settings else []
        done = subprocess.run(
            [program, "run", f"http://127.0.0.1:{server.port}/openapi.json", *header,
             "--max-examples", "5", "--seed", "1", "--warnings", "off", "--no-color",
             # A row whose numbers do not sum to 1 is refused, which no schema can say.
             "--exclude-checks", "positive_data_acceptance,negative_data_rejection"],
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        assert "No issues found" in done.stdout
        assert server.client.get("/livez").status_code == 200
        assert "Traceback" not in server.log.read_text()
