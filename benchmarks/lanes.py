"""What models and versions cost: `Task.handle`, a log with 1,000 lanes, a start with as many.

    python benchmarks/lanes.py [--rounds 5] [--python OTHER/.venv/bin/python] [--broker]

The first table: processor time of a prediction and a label of 10 classes, in batches of so many of
both, each label one batch later: without names, with one model, with 40 models of two versions.
``--python`` measures what another environment has installed, without names, in turn within each
round. The second: 1,000 lanes of 10 classes that all learn in one commit. ``--broker`` starts a
real broker and measures a start of ``stream-can run`` with 1,000 lanes (needs Java and Maven).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pipe import spread

M, WARM, ROWS = 10, 3, 8000
CASES = [("none", 1), ("one", 1), ("80", 80)]


def records(size: int, lanes: int, first: int = 0) -> list[list[Any]]:
    """Batches of predictions and the labels of those of the batch before."""
    from stream_can.stream.records import Record

    rng, found = np.random.default_rng(0), []
    for batch in range(max(8, ROWS // size)):
        predictions, labels = [], []
        for i in range(size):
            at = first + batch * size + i
            lane = int(rng.integers(lanes))
            value = {
                "model": f"m{lane // 2}", "version": f"v{lane % 2}",
                "probs": rng.dirichlet(np.full(M, 0.3)).tolist(),
            }  # fmt: skip
            predictions.append(Record("in", 0, at, at, b"k%d" % at, json.dumps(value).encode()))
            if batch:
                label = b'{"label": %d}' % rng.integers(M)
                labels.append(Record("labels", 0, at - size, at, b"k%d" % (at - size), label))
        found.append(predictions + labels)
    return found


def log(names: bool) -> Any:
    """A replica of a log that has begun, in memory."""
    from stream_can import Corrector
    from stream_can.stream.replica import Replica

    if not names:
        return Replica(Corrector(list(range(M))), 1)
    from stream_can.stream import entry
    from stream_can.stream.identity import Identity
    from stream_can.stream.records import Record

    identity = Identity("a", "in", "out", "labels", "probs", "probs_raw", "label", None, ("0",))
    start = entry.start(
        Corrector(list(range(M))).to_bytes(), identity=identity, fleet=entry.FleetTerms(1000)
    )
    replica = Replica()
    replica.fold(Record("log", 0, 0, 0, None, start))
    return replica


def task_of(replica: Any, names: bool) -> Any:
    """A task over it."""
    from stream_can.stream.fields import Fields
    from stream_can.stream.task import Task

    fields = {"fields": Fields(model="model", version="version")} if names else {}
    return Task(replica, labels_topic="labels", **fields)


def commit(replica: Any, task: Any) -> tuple[int, int]:
    """Fold what the task has to teach; entries and bytes."""
    from stream_can.stream.entry import entries
    from stream_can.stream.records import Record

    written = []
    parts, end = task.take_all()
    for mark, part in parts:
        written += entries(
            part.corrector, replica.offset, [(0, part, end)], app=replica.terms.app, lane=mark
        )
    for data in written:
        replica.fold(Record("log", 0, replica.offset, 0, None, data))
    return len(written), sum(map(len, written))


def work() -> dict[str, float]:
    """{case: microseconds} of the package that this Python has."""
    from stream_can.stream.task import Task

    found = {}
    for size in (200, 1000, 5000):
        for case, lanes in CASES if hasattr(Task, "take_all") else CASES[:1]:
            replica = log(case != "none")
            task, seconds, rows = task_of(replica, case != "none"), 0.0, 0
            for number, batch in enumerate(records(size, lanes)):
                begin = time.process_time()
                task.handle(batch)
                taken = time.process_time() - begin
                if case == "none":
                    task.take()
                else:
                    commit(replica, task)
                if number >= WARM:
                    seconds, rows = seconds + taken, rows + size
            found[f"{size} {case}"] = 1e6 * seconds / rows
    return found


def thousand() -> None:
    """Print what 1,000 lanes are."""
    from stream_can.kafka import shared

    begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    replica = log(True)
    task = task_of(replica, True)
    for batch in records(4000, 1000)[:3]:
        task.handle(batch)
        taken = time.process_time()
        n, size = commit(replica, task)
        taken = time.process_time() - taken
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin
    at = dict.fromkeys(replica.lanes, replica.offset)
    kept = {
        shared.lane_key(0, name): shared.pack_lane(name, one, at[name])
        for name, one in replica.lanes.items()
    }
    index = shared.pack(replica, at)
    read = time.process_time()
    again = shared.unpack(index, kept)
    read = time.process_time() - read
    assert len(again.lanes) == len(replica.lanes)
    print(
        f"{len(replica.lanes)} lanes: a commit of 4,000 predictions and labels in all of them is"
        f" {n} entries of {size / 1000:.0f} kB and takes {1000 * taken:.0f} ms to write and fold;"
        f" positions {len(task.positions()):,} bytes; records of the lanes"
        f" {sum(map(len, kept.values())) / 1e6:.1f} MB, index {len(index) / 1000:.0f} kB, read in"
        f" {1000 * read:.0f} ms; memory {grown / 1000:.0f} MB more (a replica, a task, the records)"
    )


def started() -> None:
    """Print how long a start with 1,000 lanes takes, on a real broker."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.kafka.broker.broker import Broker
    from tests.kafka.streams import App, run_once
    from tests.kafka.topics import produce

    with tempfile.TemporaryDirectory(prefix="lanes-") as folder:
        broker = Broker("4.4.0", Path(folder) / "broker")
        broker.start()
        try:
            names = [(f"m{i}", f"v{j}") for i in range(500) for j in (0, 1)]
            classes = [f"c{i}" for i in range(M)]
            app = App(
                broker.bootstrap_servers, partitions=4, classes=classes,
                model="model", version="version",
            )  # fmt: skip
            rng, sent = np.random.default_rng(0), []
            for i, name in enumerate(names * 5):
                at, key = 10 * i, b"k%d" % i
                row = rng.dirichlet(np.full(M, 0.3)).tolist()
                value = {"model": name[0], "version": name[1], "probs": row}
                text = json.dumps(value).encode()
                sent.append((app.given["input"], i % 4, key, text, [], at))
                label = b'{"label": "c%d"}' % rng.integers(M)
                sent.append((app.given["labels"], i % 4, key, label, [], at + 5))
            produce(app.servers, sent)
            run_once(app)
            for _ in range(3):
                begin = time.monotonic()
                running = app.worker("again")
                while not running.worker.tasks:
                    time.sleep(0.005)
                seconds = time.monotonic() - begin
                (replica,) = running.worker.learned_log.replicas.values()
                print(f"{len(replica.lanes)} lanes of {M} classes: ready after {seconds:.2f} s")
                running.stop()
        finally:
            broker.kill()
            broker.remove()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", nargs="+", default=[], help="beside this one")
    parser.add_argument("--broker", action="store_true", help="a start on a real broker")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work()))
        return
    if options.broker:
        started()
        return
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(options.rounds):
        for python in [sys.executable, *options.python]:
            ran = subprocess.run([python, __file__, "--work"], stdout=subprocess.PIPE, check=True)
            for case, measured in json.loads(ran.stdout).items():
                found.setdefault((case, python), []).append(measured)
    print("| batch | lanes | | µs a prediction and label: min / median / max |")
    print("|--:|--:|---|--:|")
    for (case, python), times in found.items():
        size, lanes = case.split()
        print(f"| {size} | {lanes} | {python} | {spread(times, '.1f')} |")
    thousand()


if __name__ == "__main__":
    main()
