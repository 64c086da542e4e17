"""Keys that are pressed on a terminal while something is shown there."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

try:
    import termios
    import tty
except ImportError:  # on Windows: nothing is read there
    termios = None  # type: ignore[assignment]

__all__ = ["pressed"]

NAMES = {
    b"q": "q", b"j": "down", b"k": "up", b" ": "page down", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[6~": "page down", b"\x1b[5~": "page up",
}  # fmt: skip


@contextmanager
def pressed() -> Iterator[Callable[[float], str | None]]:
    """What waits so many seconds for a key, and names it: None where none came, "" any other.

    Keys come at once and are not shown. Where standard input is no terminal it only waits.
    """
    if termios is None or not sys.stdin.isatty():
        yield time.sleep
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    typed = b""

    def wait(seconds: float) -> str | None:
        nonlocal typed
        if not typed:
            if not select.select([terminal], [], [], seconds)[0]:
                return None
            typed = os.read(terminal, 1024)
        # Of those that were typed faster than this reads, the first.
        known = next((key for key in NAMES if typed.startswith(key)), typed[:1])
        typed = b"" if known == b"\x1b" else typed[len(known) :]
        return NAMES.get(known, "")

    try:
        tty.setcbreak(terminal)
        yield wait
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
