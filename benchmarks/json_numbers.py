"""Microseconds to read and write the array of a message, against msgspec, and of Task.handle.

Run: ``python benchmarks/json_numbers.py [rounds]``. In a round everything runs one after the other,
200 messages at a time; processor time of the thread; minimum / median over the rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import msgspec
import numpy as np

from stream_can import Corrector
from stream_can.stream.numbers import array_text, read_array
from stream_can.stream.task import Record, Task

N = 200


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def main(rounds: int = 50) -> None:
    """Print a table."""
    decode = msgspec.json.Decoder(list[float] | dict[str, float] | float).decode
    encode = msgspec.json.Encoder().encode
    print("| m | msgspec reads | read | msgspec writes | written | Task.handle |")
    print("|--:|--:|--:|--:|--:|--:|")
    for m in (10, 100, 1000):
        P = np.random.default_rng(0).dirichlet(np.full(m, 0.5), N)
        texts = [msgspec.Raw(encode(p)) for p in P.tolist()]
        values = [json.dumps({"id": i, "probs": p}).encode() for i, p in enumerate(P.tolist())]
        records = [Record("in", 0, i, i, b"%d" % i, value) for i, value in enumerate(values)]
        works: list[Callable[[], object]] = [
            lambda: np.array([decode(text) for text in texts]),
            lambda: np.frombuffer(bytearray().join([read_array(text, m) for text in texts])),
            lambda: [encode(row) for row in P.tolist()],
            lambda: [array_text(row) for row in P],
            lambda: Task(Corrector(m), labels_topic="labels").handle(records),
        ]
        taken = [[seconds(work) / N * 1e6 for work in works] for _ in range(rounds)]
        cells = [
            f"{min(each):.2f} / {statistics.median(each):.2f}" for each in zip(*taken, strict=True)
        ]
        print(f"| {m} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
