"""`Learner` beside the bare `Corrector`: microseconds a row and a label, and memory that it keeps.

    python benchmarks/learner.py

One by one, and in batches of 500; labels 500 rows late. The bare loop keeps its receipts in a
dictionary. "memory" is what the process grows by as so many predictions of 10 classes wait, beside
what `recent_mb` counts.
"""

from __future__ import annotations

import gc
import resource
import time
from pathlib import Path

import numpy as np

from stream_can import Corrector, Learner

ROUNDS, BATCH = 5, 500


def bare(P, y, batch):
    corrector, kept = Corrector(P.shape[1]), {}
    for at in range(0, len(P), batch):
        part = P[at : at + batch]
        if batch == 1:
            kept[at] = corrector.process_one(part[0], receipt=True)[1]
        else:
            kept[at] = corrector.process_many(part, receipt=True)[1]
        old = at - BATCH
        if old >= 0 and batch == 1:
            corrector.learn_one(P[old], int(y[old]), receipt=kept.pop(old))
        elif old >= 0:
            corrector.learn_many(P[old:at], y[old:at], receipts=kept.pop(old))


def learner(P, y, batch):
    found, names = Learner(Corrector(P.shape[1])), y.tolist()
    for at in range(0, len(P), batch):
        old = at - BATCH
        if batch == 1:
            found.process(at, P[at])
            if old >= 0:
                found.label(old, names[old])
        else:
            found.process_many(range(at, at + batch), P[at : at + batch])
            if old >= 0:
                found.label_many(range(old, at), names[old:at])


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main():
    print("| m | calls | bare, us | learner, us | ratio |\n|--:|---|--:|--:|--:|")
    for m in (10, 100):
        rng = np.random.default_rng(m)
        n = 20_000 if m == 10 else 5_000
        P, y = rng.dirichlet(np.full(m, 0.5), n), rng.integers(m, size=n)
        for batch, calls in ((1, "one by one"), (BATCH, "batches of 500")):
            spent = {bare: [], learner: []}
            for _ in range(ROUNDS):
                for call, times in spent.items():
                    begin = time.process_time()
                    call(P, y, batch)
                    times.append((time.process_time() - begin) / n * 1e6)
            ratios = sorted(b / a for a, b in zip(*spent.values(), strict=True))
            shown = [
                f"{min(x):.2f} / {sorted(x)[ROUNDS // 2]:.2f} / {max(x):.2f}"
                for x in spent.values()
            ]
            middle = ratios[ROUNDS // 2]
            print(f"| {m} | {calls} | {' | '.join(shown)} | {middle:.2f} |")
    n, m = 1_000_000, 10
    P = np.random.default_rng(0).dirichlet(np.full(m, 0.5), 1000)
    gc.collect()
    before, found = resident(), Learner(Corrector(m), recent_mb=4096)
    for at in range(0, n, 1000):
        found.process_many([f"order-{i}" for i in range(at, at + 1000)], P)
    grown = resident() - before
    print(f"memory of {found.waiting:,} predictions: {grown / 1e6:.0f} MB,"
          f" counted {found.bytes_kept / 1e6:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
