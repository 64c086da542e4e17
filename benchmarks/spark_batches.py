"""How long a micro-batch of `stream_can.spark.Learning` may be: the flights, without Spark.

    python benchmarks/spark_batches.py

What `Learning` does, in one process: rows of a batch are corrected by the state before it, then
their sums and the labels of the batch are learned, with receipts or without.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from stream_can import Corrector
from stream_can.method.sums import add_up
from stream_can.row_sums import RowSums
from stream_can.scores import Scores

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import flights as example

HOURS = (1, 6, 24, 48)


def run(flights: example.Stream, hours: int, receipts: bool) -> Scores:
    """Scores of what is sent with batches of so many hours."""
    corrector = Corrector(example.CLASSES, train_counts=flights.train_counts)
    P, names = flights.probs, np.array(example.CLASSES, object)
    decay = 2.0 ** (-1 / corrector.settings["half_life"])
    length = np.timedelta64(60 * hours, "m")
    batch, known = (
        ((times - flights.time[0]) // length).astype(int)
        for times in (flights.time, flights.label_time)
    )
    order, scores, sent = np.argsort(flights.label_time, kind="stable"), Scores(), None
    for n in range(batch.max() + 1):
        rows = slice(*np.searchsorted(batch, [n, n + 1]))
        unused, sums = (RowSums(corrector).zeros() for _ in range(2))
        undecayed = Corrector.from_bytes(corrector.to_bytes(), half_life=np.inf)
        RowSums(undecayed).correct(P[rows], sums)
        add_up(RowSums(corrector).parts, sums, decay)
        out, of_rows = RowSums(corrector).correct(P[rows], unused, receipt=True)
        scores.add(out, flights.labels[rows])
        sent = np.empty((len(P), of_rows.shape[1]), of_rows.dtype) if sent is None else sent
        sent[rows] = of_rows
        due = order[slice(*np.searchsorted(known[order], [n, n + 1]))]
        _, of_now = RowSums(corrector).correct(P[due], unused, receipt=True)
        RowSums(corrector).add(sums)
        brought = sent[due] if receipts else of_now
        corrector.learn_many(P[due], names[flights.labels[due]], receipts=brought)
    return scores


def main() -> None:
    flights, raw = example.stream(), Scores()
    raw.add(flights.probs, flights.labels)
    print(f"{len(flights.labels):,} flights, points of accuracy\n")
    print("| batches of | with receipts | without |\n|--:|--:|--:|")
    for hours in HOURS:
        gains = (
            run(flights, hours, receipts).accuracy - raw.accuracy for receipts in (True, False)
        )
        print(f"| {hours} h | " + " | ".join(f"{100 * g:+.1f}" for g in gains) + " |", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    main()
