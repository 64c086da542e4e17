"""Output of a pipe: all of it is written, or an error names the file."""

from __future__ import annotations

import base64
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import msgspec

from stream_can.errors import StreamCANError

__all__ = ["complain", "letter_of", "naming", "write_all", "write_lines"]


def letter_of(unit: str, number: int, data: bytes, error: StreamCANError) -> bytes:
    """A dead letter as a JSON line; ``number`` is that of the line or record, from 1 on."""
    kind = error.full_name.rpartition(".")[2]
    letter: dict[str, Any] = {unit: number, "error": f"{kind}: {str(error)[:1000]}"}
    try:
        letter["input"] = data.decode()
    except UnicodeDecodeError:
        letter["input_base64"] = base64.b64encode(data).decode()
    return msgspec.json.encode(letter) + b"\n"


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of it, past the buffer of ``file`` if there is one.

    With PYTHONUNBUFFERED, which is usual in containers, standard output has no buffer. Then
    ``write`` may take only a part, as on a disk that is nearly full, and only its result says so.
    """
    raw = getattr(file, "raw", file)
    left = memoryview(data)
    while left:
        written = raw.write(left)
        if written is None:  # the file does not block and cannot take more now: wait
            select.select([], [raw], [])
        else:
            left = left[written:]


def write_lines(file: BinaryIO, lines: list[bytes]) -> None:
    """Write lines, each with its end."""
    write_all(file, b"\n".join([*lines, b""]))


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Put the name of the file into the error of a write; BrokenPipeError goes through as it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"{what}: {error.strerror}") from error


def complain(error: object, code: int = 0) -> int:
    """Say it on standard error and return the exit code."""
    print(f"stream-can pipe: {error}", file=sys.stderr, flush=True)
    return code
