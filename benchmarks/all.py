"""Run every command that RESULTS.md names, one after the other, for the figures of a release.

    python benchmarks/all.py FOLDER [NAME ...]

FOLDER holds recorded streams, see validation.py. What a command prints goes to out/results, in a
file of its own; a line for each says how long it took. With names only theirs run: "kernel pipe".
Only a quiet machine has quiet figures: nothing else should run, and it takes some hours.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = ROOT / "out" / "results"
LEFT_OUT = {"two_commits": "compares with an older checkout, whose interpreter it is given"}


def commands() -> list[list[str]]:
    """Of each section of RESULTS.md; optional arguments, in brackets, are left out."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    named = dict.fromkeys(re.findall(r"`python (benchmarks/[^`]*)`", text))
    return [shlex.split(re.sub(r"\s*\[.*?\]", "", command)) for command in named]


def main(folder: str, *names: str) -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    failed = 0
    for number, (program, *arguments) in enumerate(commands()):
        name = Path(program).stem
        if name in LEFT_OUT or (names and name not in names):
            continue
        given = [folder if argument == "FOLDER" else argument for argument in arguments]
        path, began = OUT / f"{number:02d}-{name}.txt", time.monotonic()
        with path.open("w") as file:
            file.write(f"$ python {shlex.join([program, *arguments])}\n")
            file.flush()
            code = subprocess.run(
                [sys.executable, program, *given], cwd=ROOT, stdout=file, stderr=file
            ).returncode
        failed += code != 0
        print(
            f"{time.monotonic() - began:8.0f} s  exit {code}  {path.relative_to(ROOT)}", flush=True
        )
    return min(failed, 1)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
