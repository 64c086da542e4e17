"""Write the output of a pipe completely, or raise an error that names the file."""

from __future__ import annotations

import base64
import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import msgspec

from stream_can.errors import StreamCANError


def letter_of(unit: str, number: int, data: bytes, error: StreamCANError) -> bytes:
    """A dead letter as a JSON line; ``number`` counts lines or records from 1."""
    kind = error.full_name.rpartition(".")[2]
    letter: dict[str, Any] = {unit: number, "error": f"{kind}: {str(error)[:1000]}"}
    try:
        letter["input"] = data.decode()
    except UnicodeDecodeError:
        letter["input_base64"] = base64.b64encode(data).decode()
    return msgspec.json.encode(letter) + b"\n"


class TextFile:
    """A standard error that takes text alone, as a file of bytes."""

    @staticmethod
    def write(data: memoryview) -> int:
        """Write complete lines."""
        sys.stderr.write(bytes(data).decode())
        return len(data)


def letters_file(path: str | os.PathLike[str] | None, stack: ExitStack) -> Any:
    """Open the file of dead letters until the stack ends; without a path, standard error.

    Raises
    ------
    OSError
        It cannot be opened; or it is a named pipe that nobody reads, for which nothing waits.
    """
    if path is None:
        return getattr(sys.stderr, "buffer", TextFile)
    try:
        number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
    except OSError as error:
        why = "nobody reads this named pipe" if error.errno == errno.ENXIO else error.strerror
        raise OSError(f"dead_letters: {path}: {why}") from None
    os.set_blocking(number, True)
    return stack.enter_context(os.fdopen(number, "ab", buffering=0))


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all data, bypassing the buffer of ``file``.

    With PYTHONUNBUFFERED, which is usual in containers, standard output has no buffer. Then
    ``write`` may write only a part, as on a nearly full disk, and only its result tells.
    """
    raw = getattr(file, "raw", file)
    unwritten = memoryview(data)
    while unwritten:
        written = raw.write(unwritten)
        if written is None:  # non-blocking and full: wait
            select.select([], [raw], [])
        else:
            unwritten = unwritten[written:]


def write_lines(file: BinaryIO, lines: list[bytes]) -> None:
    """Write lines with line ends."""
    write_all(file, b"\n".join([*lines, b""]))


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the file's name to a write error; BrokenPipeError passes unchanged."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"{name}: {error.strerror}") from error


def complain(error: object, code: int = 0) -> int:
    """Print an error to standard error; return the exit code."""
    print(f"stream-can pipe: {error}", file=sys.stderr, flush=True)
    return code
