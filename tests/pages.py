"""The snippets of a page: which there are, and how one of a shell runs."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.programs import PATIENCE

ROOT = Path(__file__).parent.parent


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of each block of a page, out of lists too; not of whole examples, which have
    tests of their own."""
    text = re.sub(r"^<!-- program .*?<!-- end -->$", "", page.read_text(), flags=re.M | re.S)
    found = re.findall(r"^( *)```(\w+)\n(.*?)^ *```", text, re.M | re.S)
    for indent, language, code in found:
        if ">>>" not in code:  # a session, of a doctest
            yield language, re.sub(f"^{indent}", "", code, flags=re.M)


def environment() -> dict[str, str]:
    """One whose ``stream-can`` is that of the tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path}


def run_sh(code: str, folder: Path | None = None) -> str:
    """What a snippet of a shell prints; it must not fail."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, (code, done.stdout, done.stderr)
    return done.stdout


@contextlib.contextmanager
def staying(code: str, folder: Path, log: Path) -> Iterator[None]:
    """A command in a terminal of its own, until Ctrl-C."""
    with open(log, "wb") as file:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {code}"], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
            stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip
    try:
        yield
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
