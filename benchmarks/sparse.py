"""The sparse corrector: what a row costs, whatever the number of classes, and what it is worth.

    python benchmarks/sparse.py [FOLDER] [--rounds 5]

Rows and labels of made-up streams, classes drawn by Zipf's law: microseconds, and as a ratio to a
copy of the row's cells (64 bytes each) in the same round; median of the rounds, minimum to maximum
behind it. Then a snapshot, and the memory of a class; and what a row and its label cost by id.

FOLDER holds .npz files with probs (n, m), labels (n,) and train_counts (m,); of rows that occur
more than once the first is taken, and of the files those with at least 15 classes. Rows are cut to
their 10 or 20 likeliest and compared with `Corrector` on full rows.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
from processes import cpu
from recorded import distinct

from stream_can import Corrector, Learner
from stream_can.learner import LateLabel
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


SERVER = """
http_port = {port}
rows = "sparse"
max_classes = {m}
state = "{state}"
"""


def by_id(rounds: int) -> None:
    """A row and its label, 100 rows late, by id: bare, by a `Learner`, a pipe and a server, which
    has 100 of both in a request. Processor time, that of the start taken off."""
    print("\n| m | k | bare, µs | Learner | pipe | server |\n|--:|--:|--:|--:|--:|--:|")
    for m in (10**4, 10**5, 10**6):
        for k in (10, 50):
            n = 100_000 // k
            shown = list[list[float]]()
            for seed in range(rounds):
                ids, P, ys = zipf_rows(np.random.default_rng(seed), m, n, k)
                rows = [
                    {f"class {i}": p for i, p in zip(some, own, strict=True) if i >= 0}
                    for some, own in zip(ids.tolist(), P.tolist(), strict=True)
                ]
                labels = [f"class {y}" for y in ys.tolist()]
                shown.append([1e6 * one / n for one in (
                    seconds(lambda: bare(rows, labels, m)),
                    seconds(lambda: learned(rows, labels, m)),
                    through_pipe(rows, labels, m),
                    through_server(rows, labels, m),
                )])  # fmt: skip
            cells = [spread(list(of)) for of in zip(*shown, strict=True)]
            print(f"| {m:,} | {k} | " + " | ".join(cells) + " |", flush=True)


def bare(rows: list[Any], labels: list[str], m: int) -> None:
    corrector, kept = SparseCorrector("any", max_classes=m), []
    for i, row in enumerate(rows):
        kept.append(corrector.process_one(row, receipt=True)[1])
        if i >= 100:
            corrector.learn_one(rows[i - 100], labels[i - 100], receipt=kept[i - 100])


def learned(rows: list[Any], labels: list[str], m: int) -> None:
    learner = Learner(SparseCorrector("any", max_classes=m))
    for first in range(0, len(rows), 100):
        some = range(first, min(first + 100, len(rows)))
        due = [LateLabel(i - 100, labels[i - 100], i - first + 1) for i in some if i >= 100]
        learner.play(some, [rows[i] for i in some], due)


def through_pipe(rows: list[Any], labels: list[str], m: int) -> float:
    """Seconds of processor time beyond those of no line."""
    lines = []
    for i, row in enumerate(rows):
        lines.append(json.dumps({"id": i, "probs": row}))
        if i >= 100:
            lines.append(json.dumps({"id": i - 100, "label": labels[i - 100]}))
    used = []
    for text in ("", "\n".join(lines) + "\n"):
        with tempfile.TemporaryFile() as source:
            source.write(text.encode())
            source.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-m", "stream_can", "pipe", "--rows", "sparse",
                 "--max-classes", str(m)],
                stdin=source, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            _, _, one = os.wait4(process.pid, 0)
            used.append(one)
    of = [one.ru_utime + one.ru_stime for one in used]
    return of[1] - of[0]


def through_server(rows: list[Any], labels: list[str], m: int) -> float:
    """The same of a server with a file."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        config = Path(folder) / "app.toml"
        config.write_text(SERVER.format(port=port, m=m, state=Path(folder) / "state.sqlite"))
        process = subprocess.Popen(
            [sys.executable, "-m", "stream_can", "serve", config], stderr=subprocess.DEVNULL
        )
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while True:
                try:
                    client.get("/readyz")
                    break
                except httpx.TransportError:
                    time.sleep(0.01)
            started = cpu(process.pid)
            for first in range(0, len(rows), 100):
                some = range(first, min(first + 100, len(rows)))
                client.post("/correct", json=[{"id": i, "probs": rows[i]} for i in some])
                if first:
                    due = [{"id": i - 100, "label": labels[i - 100]} for i in some]
                    client.post("/labels", json=due)
            spent = cpu(process.pid) - started
        process.terminate()
        process.wait()
        return spent


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
    by_id(options.rounds)
    if options.folder:
        streams(options.folder)
