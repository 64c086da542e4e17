"""What `correct_by_key` costs for each key that has rows in a micro-batch, in processor time.

    python benchmarks/spark_by_key.py [--keys 10000] [--batches 10] [--classes 10]

Each key has two rows in each batch: a prediction and the label of its last one. Beside it stand the
same stream without a state, and Spark's own call with a state for each key that counts rows. CPU is
user and system time of Spark's JVM and of its Python workers, batch by batch of one running query,
whose first batches are not counted. Figures are minimum / median / maximum of the batches.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from processes import cpu
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from stream_can import Corrector  # noqa: E402
from stream_can.spark import correct_by_key  # noqa: E402
from tests.spark.session import session  # noqa: E402

SCHEMA = "tenant string, time double, probs array<double>, label string"
WARM = 3


class Count(StatefulProcessor):  # type: ignore[misc]
    """A number of rows a key: the least that Spark's state for each key costs."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802
        before = self._state.get()[0] if self._state.exists() else 0
        frames = list(rows)
        self._state.update((before + sum(map(len, frames)),))
        yield from frames


def stateless(df: DataFrame, classes: list[str]) -> DataFrame:
    return df


def counting(df: DataFrame, classes: list[str]) -> DataFrame:
    return df.groupBy("tenant").transformWithStateInPandas(Count(), SCHEMA, "append", "none")


def corrected(df: DataFrame, classes: list[str]) -> DataFrame:
    return correct_by_key(df, "tenant", Corrector(classes))


SUBJECTS = {"without a state": stateless, "count by key": counting, "correct_by_key": corrected}


def write(path: Path, keys: int, classes: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"tenant {key}" for key in range(keys)] * 2
    P = rng.dirichlet(np.full(len(classes), 0.7), keys).tolist() * 2
    labels = [None] * keys + rng.choice(classes, keys).tolist()
    times = [seed + i / len(names) for i in range(len(names))]
    table = pa.table({"tenant": names, "time": times, "probs": P, "label": labels})
    pq.write_table(table, path)


def used(root: int, seen: dict[int, float]) -> float:
    """Processor seconds of a process and all below it; ``seen`` has those of ended ones."""
    open_ = [root]
    while open_:
        pid = open_.pop()
        try:
            seen[pid] = cpu(pid)
            for task in Path(f"/proc/{pid}/task").iterdir():
                open_ += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return sum(seen.values())


def measure(spark: SparkSession, subject: str, args: argparse.Namespace) -> list[float]:
    """Milliseconds for a key in each batch of one query."""
    classes = [f"class {i}" for i in range(args.classes)]
    found: list[float] = []
    seen: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("new", "in"):
            (folder / part).mkdir()
        source = spark.readStream.schema(SCHEMA).parquet(str(folder / "in"))
        query = SUBJECTS[subject](source, classes).writeStream.format("parquet")
        query = query.option("checkpointLocation", str(folder / "checkpoint"))
        running = query.option("path", str(folder / "out")).start()
        for batch in range(WARM + args.batches):
            write(folder / "new" / "part", args.keys, classes, batch)
            before = used(os.getpid(), seen)
            (folder / "new" / "part").rename(folder / "in" / f"{batch}.parquet")
            running.processAllAvailable()
            found.append((used(os.getpid(), seen) - before) / args.keys * 1e3)
        running.stop()
    return found[WARM:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, default in (("keys", 10_000), ("batches", 10), ("classes", 10)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--only", nargs="*", choices=SUBJECTS, default=SUBJECTS)
    args = parser.parse_args()
    spark = session()
    for subject in args.only:
        ms = measure(spark, subject, args)
        print(f"{subject:16} {min(ms):.3f} / {median(ms):.3f} / {max(ms):.3f} ms a key", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
