"""`make kafka-demo`, on fewer flights."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.programs import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def processes_of(folder: str) -> list[str]:
    """Command lines of live processes that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found += [text] * (folder in text)
    return found


@pytest.mark.long
@pytest.mark.parametrize("form", ["json", pytest.param("avro", marks=pytest.mark.release)])
def test_every_flight_once_and_nothing_left_behind(tmp_path: Path, form: str) -> None:
    command = [sys.executable, str(EXAMPLES / "kafka_demo.py"), "--flights", "2000"]
    done = subprocess.run(
        [*command, "--format", form],
        capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2000 records for 2000 flights; 0 missing, 0 twice, 0 changed" in done.stdout
    assert "killed with SIGKILL" in done.stdout
    assert re.search(r"back with its state after [\d.]+ s", done.stdout)
    assert done.stdout.endswith("every flight came out exactly once\n")
    assert re.search(r"before: accuracy [\d.]+%.*\n after: accuracy [\d.]+%", done.stdout)
    assert list(tmp_path.iterdir()) == []
    assert processes_of(str(tmp_path)) == []


def test_the_check_of_the_demo_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import kafka_demo
    import numpy as np
    from flights import Stream

    P = np.array([[0.5, 0.5]] * 3)
    flights = Stream(P, np.zeros(3, int), *[np.zeros(3)] * 3, ["a", "b"], *[np.zeros(2)] * 3)
    good = {flight: ([0.5, 0.5], [0.6, 0.4]) for flight in range(3)}
    for times, rows, exact in (
        ({0: 1, 1: 1, 2: 1}, good, True),
        ({0: 1, 1: 2, 2: 1}, good, False),
        ({0: 1, 2: 1}, {0: good[0], 2: good[2]}, False),
        ({0: 1, 1: 1, 2: 1}, good | {1: ([0.4, 0.6], [0.6, 0.4])}, False),
        ({0: 1, 1: 1, 2: 1, 3: 1}, good | {3: good[0]}, False),
    ):
        monkeypatch.setattr(
            kafka_demo, "outputs", lambda *_, t=times, r=rows: (kafka_demo.Counter(t), r)
        )
        assert kafka_demo.verify("", flights, 3) is exact


def test_training_counts_of_the_settings_are_those_of_the_model() -> None:
    given = tomllib.loads((EXAMPLES / "kafka_flights.toml").read_text())
    sys.path.insert(0, str(EXAMPLES))
    try:
        from flights import CLASSES, pl, read
    finally:
        sys.path.remove(str(EXAMPLES))
    past = read().filter(pl.col("month") <= 2)
    counts = [past.filter(pl.col("label") == i).height for i in range(len(CLASSES))]
    assert given["classes"] == CLASSES
    assert given["train_counts"] == counts
