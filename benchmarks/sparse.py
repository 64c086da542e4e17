"""The sparse corrector: what a row costs, whatever the number of classes, and what it is worth.

    python benchmarks/sparse.py [FOLDER] [--rounds 5]

Rows and labels of made-up streams, classes drawn by Zipf's law: microseconds, and as a ratio to a
copy of the row's cells (64 bytes each) in the same round; median of the rounds, minimum to maximum
behind it. Then a snapshot, and the memory of a class.

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,); of rows that occur
more than once the first is taken, and of the files those with at least 15 classes. Rows are cut to
their 10 or 20 likeliest and compared with `Corrector` on full rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from recorded import distinct

from stream_can import Corrector
from stream_can.sparse import SparseCorrector

BATCH, FLOOR = 20, 1e-6
CASES = [("every label, 100 late", 100, 1.0), ("1 in 20, 100 late", 100, 0.05),
         ("every label, 1,000 late", 1000, 1.0)]  # fmt: skip


def seconds(call: Callable[[], object]) -> float:
    """Processor time: it does not count the time that other work on the machine takes."""
    start = time.process_time()
    call()
    return time.process_time() - start


def spread(values: list[float]) -> str:
    return f"{median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def zipf_rows(rng: Any, m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    """Lists of k different classes, and labels of which a third are drawn from all."""
    mass = (1 / np.arange(1, m + 1)).cumsum()
    names = rng.permutation(m)
    drawn = names[np.searchsorted(mass, rng.random((n, 4 * k)) * mass[-1])]
    ids = np.full((n, k), -1, np.int32)
    for row, many in zip(ids, drawn, strict=True):
        different = list(dict.fromkeys(many[:-1].tolist()))[:k]
        row[: len(different)] = different
    P = -np.sort(-rng.dirichlet(np.full(k, 0.3), n), axis=1) * 0.9
    P[ids < 0] = 0
    return ids, P, np.where(rng.random(n) < 0.3, drawn[:, -1], ids[:, 0])


def costs(rounds: int) -> None:
    print("| m | k | row, µs | label, µs | row, ratio | label, ratio |\n|--:|--:|--:|--:|--:|--:|")
    rng, sizes = np.random.default_rng(0), []
    for m in (10**4, 10**5, 10**6):
        for k in (10, 50):
            n = 400_000 // k
            corrector, cells = SparseCorrector(m), np.ones((m, 16), np.float32)
            found: list[list[float]] = []
            for _ in range(rounds + 1):
                ids, P, ys = zipf_rows(rng, m, n, k)
                sent: Any = None

                def process(ids: Any = ids, P: Any = P) -> None:
                    nonlocal sent
                    _, sent = corrector.process_many(ids, P, receipt=True)

                copied = seconds(lambda: [cells[ids[i : i + BATCH]] for i in range(0, n, BATCH)])
                row = seconds(process)
                label = seconds(lambda: corrector.learn_many(ids, P, ys, receipts=sent))
                found.append([1e6 * row / n, 1e6 * label / n, row / copied, label / copied])
            shown = [spread(list(of)) for of in zip(*found[1:], strict=True)]
            print(f"| {m:,} | {k} | " + " | ".join(shown) + " |")
            if k == 50:
                save = [seconds(corrector.to_bytes) for _ in range(rounds)]
                data = corrector.to_bytes()
                load = [seconds(lambda: SparseCorrector.from_bytes(data)) for _ in range(rounds)]
                size = (
                    f"{corrector.memory / m:.0f} bytes a class; snapshot {len(data) / 1e6:.1f} MB"
                )
                times = [spread([1e3 * t for t in of]) for of in (save, load)]
                sizes.append(
                    f"{m:,} classes: {size}, written in {times[0]} ms, read in {times[1]} ms"
                )
    print("", *sizes, sep="\n")


def played(P: Any, y: Any, given: Any, delay: int, dense: Any, cut: Any, k: int) -> Any:
    """For each row whether it was right and what its label had, of one of the two correctors."""
    right, had = np.empty(len(P), bool), np.empty(len(P))
    order = np.argsort(-P, axis=1, kind="stable")[:, :k].astype(np.int32)
    top, kept, learned = np.take_along_axis(P, order, 1), [], 0
    for start in range(0, len(P), BATCH):
        stop = min(len(P), start + BATCH)
        now = slice(start, stop)
        if dense is not None:
            out, receipts = dense.process_many(P[now], receipt=True)
            right[now], had[now] = out.argmax(1) == y[now], out[np.arange(stop - start), y[now]]
        else:
            sent, receipts = cut.process_many(order[now], top[now], receipt=True)
            for i in range(start, stop):
                ids, row = sent.ids[i - start], sent.probabilities[i - start]
                at = np.flatnonzero(ids == y[i])
                right[i] = ids[row.argmax()] == y[i]
                had[i] = row[at[0]] if at.size else cut.tail(int(y[i]), ids, sent.rest[i - start])
        kept.extend(receipts)
        due = np.arange(learned, max(learned, stop - delay))
        learned = max(learned, stop - delay)
        due = due[given[due]]
        if len(due):
            back = np.array([kept[i] for i in due])
            if dense is not None:
                dense.learn_many(P[due], y[due], receipts=back)
            else:
                cut.learn_many(order[due], top[due], y[due], receipts=back)
    return 100 * right.mean(), -np.log(np.maximum(had, FLOOR)).mean()


def streams(folder: Path) -> None:
    """Accuracy in points and log loss in nats, of rows that are cut against full rows."""
    for name, delay, share in CASES:
        print(
            f"\n| {name} | raw | full rows | k = 5 | k = 10 | k = 20 |\n|---|--:|--:|--:|--:|--:|"
        )
        change: dict[int, list[Any]] = {5: [], 10: [], 20: []}
        for path in sorted(folder.glob("*.npz")):
            P, y, counts = distinct(path)
            m = P.shape[1]
            if m < 15:
                continue
            given = np.random.default_rng(0).random(len(P)) < share
            raw = (
                100 * (P.argmax(1) == y).mean(),
                -np.log(np.maximum(P[np.arange(len(P)), y], FLOOR)).mean(),
            )
            full = played(P, y, given, delay, Corrector(m, train_counts=counts), None, m)
            shown = [f"{raw[0]:.2f}, {raw[1]:.4f}", f"{full[0]:.2f}, {full[1]:.4f}"]
            for k, all_changes in change.items():
                if k >= m:
                    shown.append("")
                    continue
                corrector = SparseCorrector(m, train_counts=counts)
                made = played(P, y, given, delay, None, corrector, k)
                all_changes.append((made[0] - full[0], made[1] - full[1]))
                shown.append(f"{all_changes[-1][0]:+.2f}, {all_changes[-1][1]:+.4f}")
            print(f"| {path.stem} ({m} classes, {len(P):,} rows) | " + " | ".join(shown) + " |")
        for what, at in (("minimum", np.min), ("median", np.median), ("maximum", np.max)):
            shown = [at(np.array(of), axis=0) for of in change.values()]
            print(f"| {what} | | | " + " | ".join(f"{a:+.2f}, {b:+.4f}" for a, b in shown) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    costs(options.rounds)
    if options.folder:
        streams(options.folder)
