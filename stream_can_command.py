"""The command ``stream-can`` until the package is imported: signals end it, without a traceback.

A module beside the package, since whatever is inside it imports the package and numpy first. The
package itself imports it before all else: ``python -m stream_can`` begins with the package.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

__all__ = ["main"]


def _end_in_order() -> None:
    """Where a worker starts: nothing has begun, so one that is stopped now has stopped in order."""
    if sys.argv[1:2] == ["run"] and "--check" not in sys.argv:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def main() -> int:
    """Import the command line with nothing to interrupt but the process, then run it."""
    _end_in_order()
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not ignored, as behind nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from stream_can.cli.main import main as command

    with suppress(ImportError):  # the command says which extra is missing
        import stream_can.cli.commands  # noqa: F401
    signal.signal(signal.SIGINT, handler)
    return command()


# While Python looks for the module of ``-m``, "-m" stands where its file will.
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "stream_can":
    _end_in_order()
