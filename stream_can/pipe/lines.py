"""Lines of standard input, until it ends or a signal says stop."""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, BinaryIO, Self

from stream_can.messages.forms import BadMessage

__all__ = ["MOST", "Stop", "read_lines"]

CHUNK = 1 << 17
"""Bytes read at once (16 to 256 kB were measured). With more, a batch of 10 classes does not stay
in the cache; with less, a batch of 1,000 classes has too few lines."""
MOST = 64 << 20
"""Bytes of a line, of a block of a container file, and of what such a block unpacks to."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class StopReading(BaseException):
    """Raised by the signal handler out of a blocking read, and only there."""


class Stop:
    """SIGTERM and SIGINT end the reading, not the work on what was read; a second one kills."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self.reading = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGTERM, signal.SIGINT):
                self.before[signum] = signal.signal(signum, self.handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self.before.items():
            signal.signal(signum, handler)

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """The signal handler."""
        self.signum = signum
        signal.signal(signum, signal.SIG_DFL)
        if self.reading:
            raise StopReading

    def read(self, source: BinaryIO, seconds: float | None = None) -> bytes | None:
        """Wait for something to read, and return it: empty at the end or after a signal.

        None where nothing came in so many seconds.
        """
        try:
            # First the flag, then the question: a signal between the two raises, none is missed.
            self.reading = True
            if self.signum is not None:
                return b""
            if seconds is not None and not _comes(source, seconds):
                return None
            data: bytes = source.read1(CHUNK)  # type: ignore[attr-defined]
            self.reading = False
        except StopReading:
            return b""
        finally:
            self.reading = False
        return data


def read_lines(
    source: BinaryIO, stop: Stop, patience: Callable[[], float | None] = lambda: None
) -> Iterator[list[bytes]]:
    """Complete lines as they come.

    A last line without a newline counts too, but not where a signal ended the reading: it may be
    cut in the middle.

    Parameters
    ----------
    patience
        How many seconds to wait for more now; if none come, an empty list is yielded. None waits
        for ever.

    Raises
    ------
    BadMessage
        A line is; those before it were yielded.
    """
    parts: list[bytes] = []
    length = 0
    begun = False
    while (data := stop.read(source, patience())) != b"":
        if data is None:
            yield []
            continue
        if not begun:
            begun, data = True, data.removeprefix(BYTE_ORDER_MARK)
        head, newline, tail = data.rpartition(b"\n")
        if newline:
            yield b"".join([*parts, head]).split(b"\n")
            parts, length = [], 0
        if tail:
            parts.append(tail)
            length += len(tail)
        if length > MOST:
            raise BadMessage(f"a line of more than {MOST >> 20} MB: are these JSON lines?")
    if parts and stop.signum is None:
        yield [b"".join(parts)]


def _comes(source: BinaryIO, seconds: float) -> bool:
    """Whether there is something to read before so many seconds are over."""
    try:
        ready, _, _ = select.select([source], [], [], max(seconds, 0))
    except (OSError, ValueError):  # not a file of the operating system, so reading never waits
        return True
    return bool(ready)
