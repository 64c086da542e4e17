"""Programs that some tests use and pip cannot install, and how long to wait for any."""

import os
import shutil
import sys
from pathlib import Path

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
