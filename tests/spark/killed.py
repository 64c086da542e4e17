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
            fixed.segments_of = deadly(folder / "worker-killed")
        step(df, n)
        die("state", n)

    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", PER_BATCH)
    writer = source.parquet(str(folder / "in")).writeStream.foreachBatch(batch)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def deadly(marker):
    """`segments_of`, which a task calls with its rows, ending the process of the first to come."""
    segments_of = fixed.segments_of

    def killing(*arguments):
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return segments_of(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return killing


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
