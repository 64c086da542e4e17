"""What `correct` costs a row in Spark, against a mapInArrow that passes the same rows through.

Both in one session, in turns: rows a second of the wall clock, and CPU of the JVM and its Python
workers a row. ``.venv-spark/bin/python benchmarks/spark.py`` (`make spark-demo` sets it up).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from stream_can import Corrector
from stream_can.spark import correct

# The example's session: that of the tests compiles in haste, which would be measured too.
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from spark_flights import session


def learned(m: int) -> Corrector:
    """A corrector with all eight paths at work."""
    rng = np.random.default_rng(0)
    corrector = Corrector(m)
    P = rng.dirichlet(np.full(m, 0.3), 5000)
    corrector.process_many(P)
    corrector.learn_many(P, P[:, ::-1].argmax(axis=1))
    return corrector


def write(path: Path, n: int, m: int) -> None:
    """n rows in 8 files, each read as a partition."""
    path.mkdir()
    rng = np.random.default_rng(1)
    for part in range(8):
        P = rng.dirichlet(np.full(m, 0.3), n // 8)
        lists = pa.ListArray.from_arrays(
            pa.array(np.arange(n // 8 + 1, dtype=np.int32) * m), pa.array(P.reshape(-1))
        )
        pq.write_table(
            pa.table({"id": np.arange(n // 8), "probs": lists}), path / f"{part}.parquet"
        )


def cpu(root: int) -> float:
    """CPU seconds of a process, its descendants and their dead children."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        used[int(stat.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(used.get(pid, 0) for pid in family)


def measure(run: Callable[[], DataFrame], jvm: int) -> tuple[float, float]:
    """Seconds of the wall clock and of CPU until every row was made."""
    begin, busy = time.perf_counter(), cpu(jvm)
    run().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin, cpu(jvm) - busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--numbers", type=int, default=20_000_000, help="probabilities of a run")
    arguments = parser.parse_args()
    spark = session()
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    print("| m | | rows/s | CPU us a row |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for m in (10, 100):
            n, path, state = arguments.numbers // m, Path(folder) / str(m), learned(m)
            write(path, n, m)
            df = spark.read.parquet(str(path))
            runs = {
                "pass-through": lambda: df.mapInArrow(lambda batches: batches, df.schema),
                "correct": lambda: correct(df, state, probs="probs"),
            }
            found = {name: [] for name in runs}
            for turn in range(arguments.rounds + 1):
                for name, run in runs.items():
                    seconds = measure(run, jvm)
                    if turn:  # the first warms the JVM up
                        found[name].append(seconds)
            for name, times in found.items():
                wall, busy = (statistics.median(column) for column in zip(*times, strict=True))
                print(f"| {m} | {name} | {n / wall:,.0f} | {1e6 * busy / n:.2f} |", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
