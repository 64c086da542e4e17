"""The benchmarks that read states run: what they read changes with the format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import PATIENCE

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.release
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["kafka_learner.py", "--only", "m = 10", "--rows", "1000"], "CPU us a row"),
        (
            ["latency.py", "--rounds", "1", "--seconds", "1", "--brokers", "1", "--rate", "50"],
            "| label to an output with it |",
        ),
    ],
    ids=["learner", "latency"],
)
def test_runs(command: list[str], said: str) -> None:
    program, *options = command
    done = subprocess.run(
        [sys.executable, BENCHMARKS / program, *options],
        capture_output=True, text=True, check=True, timeout=2 * PATIENCE,
    )  # fmt: skip
    assert said in done.stdout
