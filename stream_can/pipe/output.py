"""What a pipe writes: all of it, or an error that names the file."""

from __future__ import annotations

import base64
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import msgspec

from stream_can.stream.records import Output

__all__ = ["complain", "letter_of", "naming", "write_all"]


def letter_of(output: Output, first: int) -> bytes:
    """A dead letter as a JSON line; ``first`` is the task's number of the input's first line."""
    headers = {name: value.decode() for name, value in output.headers if value is not None}
    kind = headers["__connect.errors.exception.class.name"].rpartition(".")[2]
    line = output.value or b""
    letter: dict[str, Any] = {
        "line": int(headers["__connect.errors.offset"]) - first + 1,
        "error": f"{kind}: {headers['__connect.errors.exception.message']}",
    }
    try:
        letter["input"] = line.decode()
    except UnicodeDecodeError:
        letter["input_base64"] = base64.b64encode(line).decode()
    return msgspec.json.encode(letter) + b"\n"


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of it, past the buffer of ``file`` if there is one.

    With PYTHONUNBUFFERED, usual in containers, standard output has none: its ``write`` may take a
    part and say so only in what it returns, as on a disk that is nearly full.
    """
    raw = getattr(file, "raw", file)
    left = memoryview(data)
    while left:
        written = raw.write(left)
        if written is None:  # not blocking, and nobody reads: wait
            select.select([], [raw], [])
        else:
            left = left[written:]


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Name the file in the error of a write; a closed pipe stays what it is."""
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
