"""A stream that kills itself: ``python -m tests.spark.killed FOLDER WHERE BATCH``.

At the start of the batch, behind its output, or behind its state driver and JVM are killed with -9;
or, once, a Python worker while it corrects the batch.
"""

import os
import signal
import sys
from pathlib import Path

from stream_can.spark import Learning, fixed
from tests.spark.session import session
from tests.spark.streams import PER_BATCH, SCHEMA, start

WHERE = ("start", "output", "state", "worker")


def main(folder, where, at):
    spark = session("local[2,4]")  # a task may fail three times
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()

    def die(here, n):
        if here == where and n == at:
            os.kill(jvm, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    def write(corrected, n):
        corrected.write.mode("overwrite").parquet(str(folder / "out" / f"batch={n}"))
        die("output", n)

    learning = Learning(start(), folder / "state")
    step = learning.then(write)

    def batch(df, n):
        with (folder / "batches").open("a") as file:
            file.write(f"{n}\n")
        die("start", n)
        if where == "worker" and n == at:
            fixed.matrix = deadly(folder / "worker-killed")
        step(df, n)
        die("state", n)

    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", PER_BATCH)
    writer = source.parquet(str(folder / "in")).writeStream.foreachBatch(batch)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def deadly(marker):
    """`matrix` that ends the process of the first worker to come."""
    matrix = fixed.matrix

    def killing(*arguments):
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return matrix(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return killing


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
