"""Rows per second of ``pipe`` against reading and writing the same file with the same library.

Run: ``python benchmarks/pipe.py [rows] [rounds]``. Every round runs, one after the other in
processes of their own, msgspec decoding and encoding each line and nothing else, and the pipe:
without labels, with every label a line of its own, with the label in the line; without labels where
one line in 200 takes the way of msgspec, and where rows are rounded to two digits. Times are
processor time, the start of Python taken off; ratios are within a round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COPY = """
import sys, msgspec
decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
tail = b""
while chunk := sys.stdin.buffer.read1(1 << 18):
    *lines, tail = (tail + chunk).split(b"\\n")
    sys.stdout.buffer.write(b"".join([encode(decode(line)) + b"\\n" for line in lines]))
"""
PIPE = """
import json, sys
from stream_can.pipe import pipe
sys.exit(pipe(**json.loads(sys.argv[1])))
"""


def write_files(directory: Path, rows: int, m: int) -> dict[str, Path]:
    """The same predictions in lines of all these sorts."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(m, 0.5), rows)
    names = [str(int(rng.choice(m, p=p))) for p in P]
    plain, late, both, mixed, rounded = [], [], [], [], []
    for i, p in enumerate(P.tolist()):
        message = {"id": i, "model": "v17", "at": "2024-05-01T12:00:00Z", "probs": p}
        plain.append(json.dumps(message))
        both.append(json.dumps(message | {"label": names[i]}))
        likely = {str(k): one for k, one in enumerate(p) if one > 1e-6}
        mixed.append(plain[-1] if i % 200 else json.dumps(message | {"probs": likely}))
        rounded.append(json.dumps(message | {"probs": [round(one, 2) for one in p]}))
        late.append(plain[-1])
        if i >= 100:
            late.append(json.dumps({"id": i - 100, "label": names[i - 100]}))
    files = {
        "no labels": plain, "labels in lines of their own": late, "labels in the line": both,
        "one in 200 of fewer classes": mixed, "rounded to two digits": rounded,
    }  # fmt: skip
    if m > 10:  # two digits of so many are no row
        del files["rounded to two digits"]
    for name, lines in files.items():
        (directory / name).write_text("\n".join(lines) + "\n")
    return {name: directory / name for name in files}


def seconds(program: str, options: dict[str, object], source: Path, sink: Path) -> float:
    """Processor time of one process: what else the machine does changes it little."""
    with source.open("rb") as stdin, sink.open("wb") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(options)], stdin=stdin, stdout=stdout
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime


def spread(values: list[float], form: str) -> str:
    """Minimum, median and maximum."""
    three = (min(values), statistics.median(values), max(values))
    return " / ".join(format(value, form) for value in three)


def main(rows: int = 100_000, rounds: int = 5) -> None:
    """Print a table: rows per processor second, and the time as a multiple of msgspec's."""
    print(f"{rows} predictions, {rounds} rounds; min / median / max\n")
    print("| m | lines | rows per second | time / msgspec alone |")
    print("|---|---|---|---|")
    for m in (10, 100):
        n = rows if m == 10 else rows // 5
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            files = write_files(directory, n, m)
            empty, sink = directory / "empty", directory / "out"
            empty.touch()
            rates: dict[str, list[float]] = {name: [] for name in files}
            ratios: dict[str, list[float]] = {name: [] for name in files}
            for _ in range(rounds):
                for number, (name, source) in enumerate(files.items()):
                    options = {
                        "classes": m,
                        "labelled": name == "labels in the line",
                        "state": str(directory / f"state {number}"),
                    }
                    (directory / f"state {number}").unlink(missing_ok=True)
                    copy = seconds(COPY, {}, source, sink) - seconds(COPY, {}, empty, sink)
                    start = seconds(PIPE, {"classes": m}, empty, sink)
                    corrected = seconds(PIPE, options, source, sink) - start
                    rates[name].append(n / corrected)
                    ratios[name].append(corrected / copy)
            for name in files:
                rate, ratio = spread(rates[name], ",.0f"), spread(ratios[name], ".2f")
                print(f"| {m} | {name} | {rate} | {ratio} |")


if __name__ == "__main__":
    if not all(word.isdigit() for word in sys.argv[1:]):
        sys.exit(__doc__)
    main(*map(int, sys.argv[1:]))
