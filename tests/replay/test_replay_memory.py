"""A recording of any length replays in memory that does not grow with it."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

MEASURE = """
import resource, sys
from stream_can import Corrector
from stream_can.replay import Recording, replay
next(Recording(sys.argv[2]).chunks())  # imports what the format needs
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = replay(Recording(sys.argv[1]), Corrector(10), label_delay=1000, explain=False)
print(result.rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(
    "form",
    [*(pytest.param(form, marks=pytest.mark.release) for form in ("parquet", "npz")), "jsonl"],
)
def test_a_million_rows_replay_in_bounded_memory(tmp_path, form):
    n = 1_000_000
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet(np.ones(10), n), rng.integers(0, 10, n)
    for name, rows in [("small", 1000), ("large", n)]:
        if form == "npz":
            np.savez(tmp_path / f"{name}.npz", probs=P[:rows], label=y[:rows])
            continue
        table = pl.DataFrame({"probs": P[:rows], "label": y[:rows]})
        getattr(table, {"jsonl": "write_ndjson", "parquet": "write_parquet"}[form])(
            tmp_path / f"{name}.{form}"
        )
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path / f"large.{form}", tmp_path / f"small.{form}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    rows, megabytes = map(int, done.stdout.split())
    assert rows == n
    # The rows alone are 80 MB; what is kept is a chunk of them and the reader's own buffers.
    assert megabytes < {"parquet": 200, "npz": 60, "jsonl": 80}[form]
