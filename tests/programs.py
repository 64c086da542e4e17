"""Programs that some tests use and pip cannot install, and how long to wait for any."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from stream_can.app.port import Port

PATIENCE = float(os.environ.get("PATIENCE", 280))
"""Seconds for what takes one on a quiet machine: only what hangs takes longer on a busy one."""


def _optional() -> dict[str, tuple[list[str], str]]:
    text = Path(__file__).with_suffix(".txt").read_text()
    lines = [line.partition(":") for line in text.splitlines() if not line.startswith("#")]
    return {names.split()[0]: (names.split(), package.strip()) for names, _, package in lines}


OPTIONAL = _optional()
"""Program -> its names and Debian's package; a test that uses one is marked ``needs(program)``."""


def program(name: str) -> str:
    """Where a program is: of the environment of the tests, or on PATH.

    Raises
    ------
    LookupError
        It is nowhere; names what to install.
    """
    names, package = OPTIONAL.get(name, ([name], ""))
    for one in names:
        beside = Path(sys.executable).parent / one
        if path := str(beside) if beside.exists() else shutil.which(one):
            return path
    raise LookupError(f"needs {name}: {f'apt-get install {package}' if package else 'make setup'}")


def require(name: str) -> None:
    """Without an optional program CI fails, and elsewhere the test is skipped."""
    try:
        program(name)
    except LookupError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def wait(what: str, condition: Any, seconds: float = PATIENCE, every: float = 0.1) -> Any:
    """The first true value of ``condition()``."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(every)
    return value


class OnTerminal:
    """A program whose standard error, and output unless told otherwise, is a terminal."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self._reads, writes = pty.openpty()
        os.set_blocking(self._reads, False)
        self.process = subprocess.Popen(
            command, **{"stdout": writes, "stdin": subprocess.DEVNULL, "stderr": writes} | options
        )
        os.close(writes)
        self._text = b""

    @property
    def text(self) -> str:
        """What it has written so far."""
        with contextlib.suppress(OSError):  # nothing more yet, or at all
            while data := os.read(self._reads, 1 << 16):
                self._text += data
        return self._text.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._reads)


def answer(
    port: Port | int, path: str, method: str = "GET", accept: str = ""
) -> tuple[int, Any, str]:
    """Status, headers and text of the answer to a request."""
    number = port if isinstance(port, int) else port.number
    url, headers = f"http://127.0.0.1:{number}{path}", {"Accept": accept}
    request = urllib.request.Request(url, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=280) as found:
            return found.status, found.headers, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def get(port: Port | int, path: str, accept: str = "") -> tuple[int, str]:
    """Status and text alone."""
    status, _, text = answer(port, path, accept=accept)
    return status, text


def text_at(url: str) -> str | None:
    """The text at an address; None while nobody answers, or with an error."""
    try:
        with urllib.request.urlopen(url, timeout=280) as found:
            return str(found.read().decode())
    except OSError:
        return None
