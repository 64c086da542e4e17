"""Whatever is killed and when, the outcome is that of an offline fold, bit for bit."""

import signal
import subprocess
import sys

import pyarrow.parquet as pq

from tests.spark.killed import WHERE
from tests.spark.streams import offline, start, write


def run(folder, where, at):
    command = [sys.executable, "-m", "tests.spark.killed", str(folder), where, str(at)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400)


def test_kills(tmp_path, seed):
    """Of the first batch, which writes the state to begin with, and of others."""
    write(tmp_path / "in", seed)
    first = seed % 2
    for at, where in enumerate(WHERE, start=first):
        done = run(tmp_path, where, at)
        if where == "worker":
            assert done.returncode == 0, done.stderr
        else:
            assert done.returncode == -signal.SIGKILL, done.stderr
    assert (tmp_path / "worker-killed").exists()
    batches = [int(line) for line in (tmp_path / "batches").read_text().split()]
    again = [*range(first, first + 3)]
    assert batches == sorted([*range(5), *again])

    outputs, states = offline(tmp_path / "in", start())
    for batch, expected in outputs.items():
        rows = pq.read_table(tmp_path / "out" / f"batch={batch}").to_pylist()
        assert len(rows) == len(expected) == 400
        assert {row["id"]: (row["corrected"], row["set"]) for row in rows} == expected, batch
    kept = {path.name: path.read_bytes() for path in (tmp_path / "state").glob("*.s*")}
    assert kept == {f"{batch}.state": states[batch] for batch in (2, 3, 4)}
