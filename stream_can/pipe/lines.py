"""Read lines from standard input until it ends or a signal arrives."""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, BinaryIO, Self

from stream_can.messages.probability_formats import BadMessage

CHUNK = 1 << 17
"""Bytes per read (16 to 256 kB were measured). With more, a batch of 10 classes exceeds the
cache; with less, a batch of 1,000 classes has too few lines."""
MOST = 64 << 20
"""Maximum size of a line, and of a container file's block, compressed or not."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class StopReading(BaseException):
    """Raised by the signal handler to interrupt a blocking read, and only there."""


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
        """Handle a signal."""
        self.signum = signum
        signal.signal(signum, signal.SIG_DFL)
        if self.reading:
            raise StopReading

    def read_chunk(self, source: BinaryIO, seconds: float | None = None) -> bytes | None:
        """Wait for input and return it; empty at the end or after a signal.

        None after a time without input.
        """
        try:
            # First set the flag, then check: a signal in between raises, none is missed.
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
    """Iterate over complete lines as they arrive.

    A last line without a newline is included unless a signal ended the reading: it may be
    incomplete.

    Parameters
    ----------
    patience
        Returns how many seconds to wait for input; without any an empty list is yielded. None waits
        for ever.

    Raises
    ------
    BadMessage
        A line is too long; those before it were yielded.
    """
    parts: list[bytes] = []
    length = 0
    is_past_start = False
    while (data := stop.read_chunk(source, patience())) != b"":
        if data is None:
            yield []
            continue
        if not is_past_start:
            is_past_start, data = True, data.removeprefix(BYTE_ORDER_MARK)
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
    """Whether input arrives within a time."""
    try:
        ready, _, _ = select.select([source], [], [], max(seconds, 0))
    except (OSError, ValueError):  # not a file of the operating system: reads do not block
        return True
    return bool(ready)
