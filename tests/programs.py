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


def program(*names: str, install: str) -> str:
    """Where the first of these is; without any, CI fails and elsewhere the test is skipped."""
    for name in names:
        beside = Path(sys.executable).parent / name
        found = str(beside) if beside.exists() else shutil.which(name)
        if found:
            return found
    reason = f"needs {names[0]}: {install}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


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
