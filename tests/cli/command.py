"""The command line as a user meets it: a process, its output, its exit code."""

import os
import subprocess
import sys

KAFKA = {"run", "backfill", "--topic", "--config"}
"""What imports kafka-python, which itself uses what Python deprecates."""


def stream_can(*arguments, code=0, extra_env=None, **options):
    """Run `stream-can`; returns what it wrote to standard output and standard error."""
    strict = [] if KAFKA & {*arguments} else ["-W", "error"]
    done = subprocess.run(
        [sys.executable, *strict, "-m", "stream_can", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"} | (extra_env or {}),
        **options,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr
