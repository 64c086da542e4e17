"""Short runs of a program in processes of their own that need not import the package again.

A server process has imported it; each run is a fork of that. What starts, imports or ends a process
is not tested so: see `tests/cli/test_cli.py` for the command as a whole.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.programs import PATIENCE

ROOT = Path(__file__).parent.parent
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "stream_can.cli.commands", "stream_can.pipe.run"])


class Done(NamedTuple):
    """How a run ended."""

    code: int
    out: bytes
    err: bytes


def without_counts(said: str) -> str:
    """What a pipe said, without the counts at its end."""
    return re.sub(r"(?m)^stream-can pipe: \d+ predictions?, .*\n", "", said)


def command(arguments: Sequence[str], *, strict: bool) -> int:
    """The command ``stream-can``; ``strict`` where no warning is expected."""
    from stream_can.cli.main import main

    if strict:
        warnings.simplefilter("error")
    sys.argv = ["stream-can", *arguments]
    return main()


def pipe(options: str) -> int:
    """The function ``pipe``."""
    from stream_can.pipe import pipe

    return pipe(**json.loads(options))


def run(
    target: Any, *arguments: Any, input: bytes = b"", env: Mapping[str, str] = {}, cwd: Any = None,
    **options: Any,
) -> Done:  # fmt: skip
    """Call a function of this module in a process of its own; what it returns is the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        (files / "in").write_bytes(input)
        where = str(cwd or Path.cwd()), dict(os.environ) | env, folder
        process = FORKS.Process(target=_child, args=(where, target, arguments, options))
        with contextlib.chdir(ROOT):  # where the first run lets the server find this module
            process.start()
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
        code, out, err = process.exitcode, (files / "out"), (files / "err")
        process.close()
        return Done(code, out.read_bytes(), err.read_bytes())


def _child(where: Any, target: Any, arguments: Any, options: Any) -> None:
    cwd, env, folder = where
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(os.open(f"{folder}/in", os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT), number)
    sys.stdin = os.fdopen(0, closefd=False)
    coding = env.get("PYTHONIOENCODING")
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding=coding)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    try:
        code = target(*arguments, **options)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else bool(end.code)
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
