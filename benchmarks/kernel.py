"""What the corrector costs per row, as ratios in one run; memory per Corrector.

    python benchmarks/kernel.py [--rounds 5]

Each figure is the median of the rounds (minimum to maximum behind it); within a round what is
compared runs one after the other on the same rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import msgspec
import numpy as np

from stream_can import Corrector, batch_can, laplace

ROWS = {2: 20_000, 10: 20_000, 100: 5_000, 1000: 1_000}
WINDOW = 1000


def seconds(call: Callable[[], object]) -> float:
    """Processor time: it does not count the time that other work on the machine takes."""
    start = time.process_time()
    call()
    return time.process_time() - start


def batches(P: np.ndarray, size: int) -> list[np.ndarray]:
    return list(P) if size == 1 else [P[i : i + size] for i in range(0, len(P), size)]


def numpy_can(P: np.ndarray, S: np.ndarray, q: np.ndarray, g: float) -> np.ndarray:
    """CAN alone, a batch at a time, vectorised with care: a partition, logs of the top three."""
    m = P.shape[1]
    k = min(3, m)
    top = P if k == m else np.partition(P, m - k, axis=1)[:, m - k :]
    top = top / top.sum(1, keepdims=True)
    u = -(top * np.log(np.maximum(top, 1e-300))).sum(1) / np.log(k)
    hard = u >= 0.9
    out = P.copy()
    b = P[hard]
    L = b * q / (S + m * q + b)
    out[hard] = L / L.sum(1, keepdims=True)
    sure = P[~hard]
    powers = g ** np.arange(len(sure) - 1, -1, -1)
    S *= g ** len(sure)
    S += powers @ sure
    return out


def ratio(values: list[float], base: list[float]) -> str:
    r = [a / b for a, b in zip(values, base, strict=True)]
    return f"{median(r):.3g} ({min(r):.3g} to {max(r):.3g})"


def rows_table(rounds: int) -> None:
    print(
        "| m | paths | dtype | batch | process ns/row | ÷ np.copyto | ÷ numpy CAN | ÷ msgspec JSON "
        "| learn ns/row |"
    )
    print("|--:|---|---|--:|--:|--:|--:|--:|--:|")
    for m, n in ROWS.items():
        rng = np.random.default_rng(0)
        P64 = rng.dirichlet(np.full(m, 0.3), n)
        y = (rng.random((n, 1)) < P64.cumsum(1)).argmax(1)
        everything = f"all {len(Corrector(m).weights)}"
        json = [msgspec.json.encode({"probs": p.tolist()}) for p in P64]
        decoder, encoder = msgspec.json.Decoder(), msgspec.json.Encoder()
        for name, paths in (("can", ["can"]), (everything, None)):
            for dtype in (np.float64, np.float32):
                P = P64.astype(dtype)
                for size in (1, 32, 500, 5000):
                    if size > n:
                        continue
                    corrector = Corrector(m, paths=paths)
                    corrector.process_many(P64)
                    corrector.learn_many(P64, y)
                    parts, labels = batches(P, size), batches(y, size)
                    target, q = np.empty_like(P), laplace(np.zeros(m))
                    targets, sums = batches(target, size), np.ones(m)
                    process = corrector.process_one if size == 1 else corrector.process_many
                    learn = corrector.learn_one if size == 1 else corrector.learn_many
                    times: dict[str, list[float]] = {}
                    for _ in range(rounds):
                        for what, call in {
                            "process": lambda: [process(p) for p in parts],
                            "copy": lambda: [
                                np.copyto(t, p) for t, p in zip(targets, parts, strict=True)
                            ],
                            "numpy": lambda: [
                                numpy_can(np.atleast_2d(p), sums, q, 0.9999) for p in parts
                            ],
                            "json": lambda: [encoder.encode(decoder.decode(line)) for line in json],
                            "learn": lambda: [
                                learn(p, i) for p, i in zip(parts, labels, strict=True)
                            ],
                        }.items():
                            times.setdefault(what, []).append(seconds(call))
                    cells = [
                        f"{median(times['process']) / n * 1e9:.0f}",
                        ratio(times["process"], times["copy"]),
                        ratio(times["process"], times["numpy"]) if name == "can" else "",
                        ratio(times["process"], times["json"]),
                        f"{median(times['learn']) / n * 1e9:.0f}",
                    ]
                    print(
                        f"| {m} | {name} | {np.dtype(dtype).name} | {size} | {' | '.join(cells)} |",
                        flush=True,
                    )


def window_table(rounds: int) -> None:
    print(
        f"\n| m | batch_can over the last {WINDOW} rows, once a row, ÷ Corrector with all paths |"
    )
    print("|--:|--:|")
    for m in ROWS:
        P = np.random.default_rng(0).dirichlet(np.full(m, 0.3), WINDOW + 50)
        q = laplace(np.zeros(m))
        slow, fast = [], []
        for _ in range(rounds):
            corrector = Corrector(m)
            corrector.process_many(P[:WINDOW])
            slow.append(seconds(lambda: [batch_can(P[i : i + WINDOW], q) for i in range(1, 51)]))
            fast.append(seconds(lambda: [corrector.process_one(p) for p in P[WINDOW:]]))
        print(f"| {m} | {ratio(slow, fast)} |", flush=True)


def paths_table(rounds: int) -> None:
    print("\n| m | eight paths ÷ one (can), batch 500 |")
    print("|--:|--:|")
    for m in (2, 10, 100):
        P = np.random.default_rng(0).dirichlet(np.full(m, 0.3), 5000)
        one, eight = Corrector(m, paths=["can"]), Corrector(m)
        times = [
            (seconds(lambda: eight.process_many(P)), seconds(lambda: one.process_many(P)))
            for _ in range(rounds)
        ]
        print(f"| {m} | {ratio([a for a, _ in times], [b for _, b in times])} |", flush=True)


def columns_table(rounds: int) -> None:
    """Rows and labels whose predictions have columns of 100 values, against none."""
    print(
        "\n| m | columns | a row ÷ none, batch 500 | a label ÷ none | one by one: a row | a label |"
    )
    print("|--:|--:|--:|--:|--:|--:|")
    for m in (4, 10, 100):
        n = ROWS.get(m, 20_000)
        rng = np.random.default_rng(0)
        P = rng.dirichlet(np.full(m, 0.3), n)
        y = (rng.random((n, 1)) < P.cumsum(1)).argmax(1)
        values = {f"c{i}": [f"v{v}" for v in rng.integers(0, 100, n)] for i in range(4)}
        calls: dict[int, list[Callable[[], object]]] = {}
        for k in (0, 1, 4):
            columns = {name: values[name] for name in list(values)[:k]} or None
            corrector = Corrector(m, segments=columns or ())
            corrector.learn_many(P, y, segments=columns)
            cut = {i: columns and {c: v[i : i + 500] for c, v in columns.items()}
                   for i in range(0, n, 500)}  # fmt: skip
            rows = [columns and {c: v[i] for c, v in columns.items()} for i in range(n)]
            calls[k] = [
                lambda c=corrector, cut=cut: [
                    c.process_many(P[i : i + 500], segments=given) for i, given in cut.items()
                ],
                lambda c=corrector, cut=cut: [
                    c.learn_many(P[i : i + 500], y[i : i + 500], segments=given)
                    for i, given in cut.items()
                ],
                lambda c=corrector, rows=rows: [
                    c.process_one(p, segments=given) for p, given in zip(P, rows, strict=True)
                ],
                lambda c=corrector, rows=rows: [
                    c.learn_one(p, label, segments=given)
                    for p, label, given in zip(P, y, rows, strict=True)
                ],
            ]
        times: dict[tuple[int, int], list[float]] = {}
        for _ in range(rounds):
            for what in range(4):
                for k in (0, 1, 4):
                    times.setdefault((k, what), []).append(seconds(calls[k][what]))
        for k in (1, 4):
            cells = [ratio(times[k, what], times[0, what]) for what in range(4)]
            print(f"| {m} | {k} | {' | '.join(cells)} |", flush=True)


def memory_table() -> None:
    print("\n| m | paths | state arrays, bytes | snapshot, bytes |")
    print("|--:|---|--:|--:|")
    for m in (2, 10, 100, 256, 1000):
        for paths in (["can"], None):
            corrector = Corrector(m, paths=paths)
            size = sum(array.nbytes for array in corrector._state.values())
            print(
                f"| {m} | {'can' if paths else len(corrector.weights)} | {size:,} "
                f"| {len(corrector.to_bytes()):,} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    rows_table(rounds)
    window_table(rounds)
    paths_table(rounds)
    columns_table(rounds)
    memory_table()


if __name__ == "__main__":
    main()
