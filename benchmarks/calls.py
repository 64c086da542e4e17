"""Processor time of the library's calls: microseconds, and megabytes.

    python benchmarks/calls.py [BEFORE/.venv/bin/python] [--rounds 7] [--waiting 1000000]

Each round runs a process; what is shown is minimum / median / maximum. BEFORE is a checkout of
another commit after ``make setup``: with it each round runs a process of either, in turn, and the
median of the ratios within a round is shown too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median

PART = r"""
import gc, json, sys, time
import numpy as np
from stream_can import Corrector, Costs, Learner

found = {}

def per_call(name, count, call):
    start = time.process_time()
    for i in range(count):
        call(i)
    found[name] = (time.process_time() - start) / count * 1e6

KINDS = (
    ("", {}, {}),
    (" with sets", {"sets": 0.9}, {}),
    (" with sets by class", {"sets": 0.9, "sets_by": "class"}, {}),
    (" with monotone", {"monotone": True}, {}),
    (" with weights", {}, {"weights": np.full(500, 2.0)}),
)

def rows(m, n):
    rng = np.random.default_rng(m)
    return rng.dirichlet(np.full(m, 0.5), n), rng.integers(m, size=n)

for m, n in ((10, 20_000), (100, 5_000)):
    P, ys = rows(m, n)
    labels = ys.tolist()
    corrector = Corrector(m)
    receipts = [None] * n
    def process_one(i):
        receipts[i] = corrector.process_one(P[i], receipt=True)[1]
    per_call(f"Corrector.process_one with a receipt, m = {m}", n, process_one)
    per_call(f"Corrector.learn_one with a receipt, m = {m}", n,
             lambda i: corrector.learn_one(P[i], labels[i], receipt=receipts[i]))
    parts = range(0, n, 500)
    for kind, settings, weights in (KINDS[0], *KINDS):  # the first one warms up
        corrector, made = Corrector(m, **settings), []
        start = time.process_time()
        for at in parts:
            made.append(corrector.process_many(P[at:at + 500], receipt=True)[1])
        found[f"process_many{kind}, a row, m = {m}"] = (time.process_time() - start) / n * 1e6
        start = time.process_time()
        for at, receipt in zip(parts, made):
            corrector.learn_many(P[at:at + 500], ys[at:at + 500], receipts=receipt, **weights)
        found[f"learn_many{kind}, a label, m = {m}"] = (time.process_time() - start) / n * 1e6
    costs = Costs(m, {k: {str(k): 0, "*": 1} for k in map(str, range(m))} | {"ask": 0.2})
    start = time.process_time()
    costs.named(P)
    found[f"Costs.named, a row among {m + 1} actions"] = (time.process_time() - start) / n * 1e6
    learner = Learner(Corrector(m))
    per_call(f"Learner.process, m = {m}", n, lambda i: learner.process(i, P[i]))
    per_call(f"Learner.label, m = {m}", n, lambda i: learner.label(i, labels[i]))
    learner = Learner(Corrector(m))
    start = time.process_time()
    for at in parts:
        learner.process_many(range(at, at + 500), P[at:at + 500])
    found[f"Learner.process_many, a row, m = {m}"] = (time.process_time() - start) / n * 1e6
    start = time.process_time()
    for at in parts:
        learner.label_many(range(at, at + 500), labels[at:at + 500])
    found[f"Learner.label_many, a label, m = {m}"] = (time.process_time() - start) / n * 1e6

P, ys = rows(2, 2000)
for models in (1, 100, 3000):
    learner = Learner(Corrector(2), max_lanes=3000)
    for k in range(models):
        learner.process(f"first {k}", P[k % 2000], model=f"m{k}")
    for i in range(500):
        learner.process(i, P[i], model=f"m{i % models}")
    per_call(f"Learner.label without its model, of {models:,} models", 500,
             lambda i: learner.label(i, int(ys[i])))
    per_call(f"Learner.process, first row of a model beside {models:,}", 20,
             lambda i: learner.process(None, P[i], model=f"new {i}"))

for m in (100, 1000, 5000):
    P, _ = rows(m, 200)
    both = {}
    for uncertainty in ("topk_entropy", "entropy"):
        corrector = Corrector(m, uncertainty=uncertainty, paths=["raw", "can"])
        corrector.process_many(P)
        start = time.process_time()
        for _ in range(3):
            corrector.process_many(P)
        both[uncertainty] = time.process_time() - start
    found[f"entropy of all classes against the top three, m = {m:,}, times"] = (
        both["entropy"] / both["topk_entropy"])

waiting = int(sys.argv[1])
if waiting:
    def most():
        for line in open("/proc/self/status"):
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    def timed(name, call):
        open("/proc/self/clear_refs", "w").write("5")
        start = time.process_time()
        result = call()
        found[f"{name}, s"] = time.process_time() - start
        found[f"{name}, MB at the peak"] = most()
        return result
    P, _ = rows(10, 1000)
    learner = Learner(Corrector(10), recent_mb=4096)
    for at in range(0, waiting, 1000):
        learner.process_many([f"order-{i}" for i in range(at, at + 1000)], P)
    data = timed(f"Learner.to_bytes, {waiting:,} waiting", learner.to_bytes)
    del learner
    gc.collect()
    timed(f"Learner.from_bytes, {waiting:,} waiting", lambda: Learner.from_bytes(data))
print(json.dumps(found))
"""


def figures(python: str, waiting: int) -> dict[str, float]:
    """The figures of a commit."""
    command = [python, "-c", PART, str(waiting)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", nargs="*", help="python of another checkout")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    options = parser.parse_args()
    rounds = []
    for k in range(options.rounds):
        waiting = options.waiting if k < 3 else 0
        rounds.append([figures(p, waiting) for p in (*options.before[:1], sys.executable)])
    head = " | before | now | ratio |\n|---|--:|--:|--:|" if options.before else " | |\n|---|--:|"
    print(f"|{head}")
    for name in rounds[0][-1]:
        measured = [[side[name] for side in sides] for sides in rounds if name in sides[-1]]
        shown = [
            " / ".join(f"{float(f'{f(side):.3g}'):,g}" for f in (min, median, max))
            for side in zip(*measured, strict=True)
        ]
        if options.before:
            shown.append(f"{median(now / before for before, now in measured):.2f}")
        print(f"| {name} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
