"""What `Task.handle` costs a prediction and its label, over a learned log, with columns or none.

    python benchmarks/task.py [--rounds 5] [--python OTHER/.venv/bin/python ...]

Every message has four fields beside the probabilities; none, one or all of them are declared as
columns, of 100 values each; once more none, with prediction sets. Each label comes 200 predictions
later. Processor time of the calls alone, in batches of 200 predictions and 200 labels. ``--python``
measures what other environments have installed, in turn within each round. "bytes" is what a label
adds to the log's entries.
"""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
from pipe import spread

BATCHES, BATCH, WARM = 25, 200, 5
COLUMNS = ("c0", "c1", "c2", "c3")


def records(m: int) -> list[list[Any]]:
    """Predictions and the labels of those of the batch before."""
    from stream_can.messages.records import Record

    rng, found = np.random.default_rng(0), []
    for batch in range(BATCHES):
        predictions, labels = [], []
        for i in range(BATCH):
            at = batch * BATCH + i
            fields = {
                name: f"value {v}" for name, v in zip(COLUMNS, rng.integers(0, 100, 4), strict=True)
            }
            value = json.dumps({**fields, "probs": rng.dirichlet(np.full(m, 0.3)).tolist()})
            predictions.append(Record("in", 0, at, at, b"k%d" % at, value.encode()))
            if batch:
                label = b'{"label": %d}' % rng.integers(m)
                labels.append(Record("labels", 0, at - BATCH, at, b"k%d" % (at - BATCH), label))
        found.append(predictions + labels)
    return found


def work() -> dict[str, list[float]]:
    """{case: [microseconds, bytes]} of the package that this Python has."""
    from stream_can import Corrector
    from stream_can.messages.records import Record
    from stream_can.stream.entry import entries, settings
    from stream_can.stream.replica import Replica
    from stream_can.stream.task import Task

    found = {}
    knows_names = "app" in inspect.signature(entries).parameters  # 0.2 does not
    named = {"app": b"measured"} if knows_names else {}
    for m in (10, 100):
        batches = records(m)
        for k, kept in ((0, None), (1, None), (4, None), (0, 0.9)):
            options = {"segments": COLUMNS[:k]} if k else {}
            try:
                corrector = Corrector(list(range(m)), **options)
            except TypeError:
                continue  # a release that knows no columns
            replica = Replica(corrector, 1)
            if kept is not None:
                try:
                    told = settings({"sets": kept}, **named)
                    if replica.fold(Record("log", 0, 1, 0, None, told)) is not None:
                        continue
                except Exception:  # a release that knows no sets
                    continue
            task, seconds, size = Task(replica, labels_topic="labels"), 0.0, 0
            for number, batch in enumerate(batches):
                begin = time.process_time()
                task.handle(batch)
                taken = time.process_time() - begin
                parts = [(0, *task.take())]
                written = entries(replica.corrector, 1, parts, **named)
                if number >= WARM:
                    seconds += taken
                    size += sum(map(len, written))
                elif kept is not None:  # from here on something is known of the rows
                    for data in written:
                        replica.fold(Record("log", 0, replica.offset, 0, None, data))
            n = (BATCHES - WARM) * BATCH
            found[f"{m} {k}{' sets' if kept else ''}"] = [1e6 * seconds / n, size / n]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="instead of this one")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work()))
        return
    found: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(options.rounds):
        for python in options.python:
            ran = subprocess.run([python, __file__, "--work"], stdout=subprocess.PIPE, check=True)
            for case, measured in json.loads(ran.stdout).items():
                found.setdefault((case, python), []).append(measured)
    print("| m | columns | | µs a prediction and label: min / median / max | bytes |")
    print("|--:|--:|---|--:|--:|")
    for (case, python), measured in sorted(
        found.items(), key=lambda one: [int(x) for x in one[0][0].split()[:2]]
    ):
        m, k = case.split(maxsplit=1)
        times, sizes = zip(*measured, strict=True)
        print(f"| {m} | {k} | {python} | {spread(list(times), '.1f')} | {sizes[0]:.0f} |")


if __name__ == "__main__":
    main()
