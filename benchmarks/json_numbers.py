"""Microseconds to read and write the array of a message, against msgspec, and of Task.handle.

Task.handle in its steady state, without labels and where predictions are kept for theirs.

Run: ``python benchmarks/json_numbers.py [rounds]``. In a round everything runs one after the other,
200 messages at a time; processor time of the thread; minimum / median over the rounds.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable

import msgspec
import numpy as np

from stream_can import Corrector
from stream_can.stream.numbers import array_texts, read_array
from stream_can.stream.task import Record, Task

N = 200


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def handling(m: int, values: list[bytes], labels: bool) -> Callable[[], float]:
    """What takes the values again and again, with one task, and says how long it took."""
    task = Task(Corrector(m), labels_topic="labels" if labels else None, recent_bytes=200_000)
    counter = itertools.count()

    def handle() -> float:
        records = [Record("in", 0, n := next(counter), n, b"%d" % n, v) for v in values]
        return seconds(lambda: task.handle(records))

    return handle


def main(rounds: int = 50) -> None:
    """Print a table."""
    decode = msgspec.json.Decoder(list[float] | dict[str, float] | float).decode
    encode = msgspec.json.Encoder().encode
    print("| m | msgspec reads | read | msgspec writes | written | Task.handle | kept for labels |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for m in (10, 100, 1000):
        P = np.random.default_rng(0).dirichlet(np.full(m, 0.5), N)
        texts = [msgspec.Raw(encode(p)) for p in P.tolist()]
        values = [json.dumps({"id": i, "probs": p}).encode() for i, p in enumerate(P.tolist())]
        works: list[Callable[[], object]] = [
            lambda: np.array([decode(text) for text in texts]),
            lambda: np.frombuffer(bytearray().join([read_array(text, m) for text in texts])),
            lambda: [encode(row) for row in P.tolist()],
            lambda: list(array_texts(P)),
        ]
        tasks = handling(m, values, False), handling(m, values, True)
        taken = [
            [t / N * 1e6 for t in (*map(seconds, works), *(handle() for handle in tasks))]
            for _ in range(rounds)
        ]
        cells = [
            f"{min(each):.2f} / {statistics.median(each):.2f}" for each in zip(*taken, strict=True)
        ]
        print(f"| {m} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
