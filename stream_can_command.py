"""The command ``stream-can`` until the package is imported: Ctrl-C ends it, without a traceback.

A module beside the package, since whatever is inside it imports the package and numpy first.
"""

from __future__ import annotations

import signal
from contextlib import suppress

__all__ = ["main"]


def main() -> int:
    """Import the command line with nothing to interrupt but the process, then run it."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not ignored, as behind nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from stream_can.cli.main import main as command

    with suppress(ImportError):  # the command says which extra is missing
        import stream_can.cli.commands  # noqa: F401
    signal.signal(signal.SIGINT, handler)
    return command()
