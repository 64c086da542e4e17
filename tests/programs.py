"""Programs that some tests use and pip cannot install, and how long to wait for any."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 280
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
