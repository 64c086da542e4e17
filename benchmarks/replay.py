"""What a replay costs against reading and writing the same file; memory over 10 million rows.

    python benchmarks/replay.py [--rows 200000] [--rounds 5] [--large 10000000]

m = 10, labels 1,000 rows late, every row labelled. In a round everything that is compared runs one
after the other on the same file, and the ratios are taken within the round: median (minimum to
maximum). Reading and writing are those of the library that replay reads the format with: polars for
csv and parquet, msgspec for JSON lines, numpy for npz.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
import polars as pl

from stream_can import Corrector
from stream_can.replay import Recording, replay

M = 10
LARGE = """
import resource, sys, time
from stream_can import Corrector
from stream_can.replay import Recording, replay
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
next(Recording(sys.argv[2]).chunks())
before, start = peak(), time.perf_counter()
result = replay(Recording(sys.argv[1]), Corrector(10), label_delay=1000, explain=sys.argv[3] == "1")
print(result.rows, time.perf_counter() - start, before, peak())
"""


def seconds(call: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(M, 0.3), n), rng.integers(0, M, n)


def read(path: Path) -> object:
    if path.suffix == ".csv":
        return pl.read_csv(path)
    if path.suffix == ".parquet":
        return pl.read_parquet(path)
    if path.suffix == ".npz":
        with np.load(path) as file:
            return [file[name] for name in file.files]
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as lines:
        return [decode(line) for line in lines]


def write(path: Path, table: pl.DataFrame, P: np.ndarray, y: np.ndarray) -> None:
    if path.suffix == ".csv":
        table.write_csv(path)
    elif path.suffix == ".parquet":
        table.write_parquet(path)
    elif path.suffix == ".npz":
        np.savez(path, probs=P, label=y)
    else:
        encode = msgspec.json.Encoder().encode
        with path.open("wb") as file:
            for row, label in zip(P.tolist(), y.tolist(), strict=True):
                file.write(encode({"probs": row, "label": label}) + b"\n")


def whole(path: Path, explain: bool) -> object:
    return replay(Recording(path), Corrector(M), label_delay=1000, explain=explain)


def spread(values: list[float], form: str) -> str:
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def formats(n: int, rounds: int, folder: Path) -> None:
    P, y = rows(n)
    table = pl.DataFrame({f"probs_{k}": P[:, k] for k in range(M)}).with_columns(label=pl.Series(y))
    print(f"{n:,} rows, {rounds} rounds\n")
    head = ["format", "mixture, rows/s", "÷ read", "÷ read + write", "with each path, rows/s"]
    print(f"| {' | '.join(head)} | ÷ read + write |")
    print("|---|--:|--:|--:|--:|--:|")
    for form in ("csv", "jsonl", "parquet", "npz"):
        path = folder / f"stream.{form}"
        taken: list[tuple[float, float, float, float]] = []
        for _ in range(rounds):
            wrote, was_read = seconds(write, path, table, P, y), seconds(read, path)
            mixed, each = seconds(whole, path, False), seconds(whole, path, True)
            taken.append((wrote, was_read, mixed, each))
        cells = [
            spread([n / mixed for _, _, mixed, _ in taken], ",.0f"),
            spread([mixed / r for _, r, mixed, _ in taken], ".1f"),
            spread([mixed / (r + w) for w, r, mixed, _ in taken], ".1f"),
            spread([n / each for *_, each in taken], ",.0f"),
            spread([each / (r + w) for w, r, _, each in taken], ".1f"),
        ]
        print(f"| {form} | {' | '.join(cells)} |", flush=True)


def memory(n: int, folder: Path) -> None:
    P, y = rows(500_000)
    part = pl.DataFrame({f"probs_{k}": P[:, k] for k in range(M)}).with_columns(label=pl.Series(y))
    small, large = folder / "small.parquet", folder / "large.parquet"
    part.head(1000).write_parquet(small)
    pl.concat([part] * (n // len(part)), rechunk=False).lazy().sink_parquet(large)
    del part, P, y
    size, whole_rows = large.stat().st_size / 1e6, n * M * 8 / 1e6
    print(f"\n{n:,} rows, parquet of {size:,.0f} MB (the rows alone: {whole_rows:,.0f} MB)\n")
    print("| | rows/s | resident before, MB | peak, MB |")
    print("|---|--:|--:|--:|")
    for name, explain in (("mixture", "0"), ("with each path", "1")):
        done = subprocess.run(
            [sys.executable, "-c", LARGE, large, small, explain],
            capture_output=True,
            text=True,
            check=True,
        )
        count, taken, before, peak = done.stdout.split()
        print(f"| {name} | {int(count) / float(taken):,.0f} | {before} | {peak} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", type=int, default=10_000_000, help="0 leaves it out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        formats(arguments.rows, arguments.rounds, Path(folder))
        if arguments.large:
            memory(arguments.large, Path(folder))


if __name__ == "__main__":
    main()
