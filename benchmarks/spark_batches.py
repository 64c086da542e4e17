"""How long a micro-batch of `stream_can.spark.Learning` may be: the flights, without Spark.

What `Learning` does, in one process: rows of a batch are corrected with the state before it, then
its sums and its labels are learned. ``.venv-spark/bin/python benchmarks/spark_batches.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from stream_can import Corrector
from stream_can.scores import Scores
from stream_can.spark.sums import of_batch, without_decay

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from flights import CLASSES, Stream, stream

HOURS = (1, 3, 6, 12, 24, 48)
JUDGED_BY = ("state now", "state before", "receipts")


def run(flights: Stream, hours: int, judged_by: str) -> Scores:
    """Scores of what comes out with batches of so many hours."""
    corrector = Corrector(CLASSES, train_counts=flights.train_counts)
    P, m = flights.probs, len(CLASSES)
    out, sent = np.empty_like(P), np.empty((len(P), 3, m), np.float32)
    length = np.timedelta64(60 * hours, "m")
    batch, known = (
        ((times - flights.time[0]) // length).astype(int)
        for times in (flights.time, flights.label_time)
    )
    order = np.argsort(flights.label_time, kind="stable")
    for n in range(batch.max() + 1):
        rows = slice(*np.searchsorted(batch, [n, n + 1]))
        free = without_decay(corrector.to_bytes())
        sums = free.new_sums()
        free.correct_and_sum(P[rows], sums)
        nothing = corrector.new_sums()
        out[rows], sent[rows] = corrector.correct_and_sum(P[rows], nothing, receipt=True)
        due = order[slice(*np.searchsorted(known[order], [n, n + 1]))]
        _, before = corrector.correct_and_sum(P[due], nothing, receipt=True)
        receipts = {"state now": None, "state before": before, "receipts": sent[due]}[judged_by]
        corrector.add_sums(of_batch(corrector, [sums]))
        corrector.learn_many(P[due], [CLASSES[y] for y in flights.labels[due]], receipts=receipts)
    scores = Scores()
    scores.add(out, flights.labels)
    return scores


def cell(scores: Scores) -> str:
    return f"{100 * scores.accuracy:.1f}, {scores.log_loss:.3f}, {100 * scores.ece:.1f}"


def main(hours: tuple[int, ...]) -> None:
    flights, raw = stream(), Scores()
    raw.add(flights.probs, flights.labels)
    print(f"{len(flights.labels):,} flights; right %, log loss, ECE %: {cell(raw)} before\n")
    print(f"| batch | {' | '.join(JUDGED_BY)} |\n|--:|--:|--:|--:|")
    for length in hours:
        found = (cell(run(flights, length, judged_by)) for judged_by in JUDGED_BY)
        print(f"| {length} h | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or HOURS)
