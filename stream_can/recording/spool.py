"""A temporary file that is written once and then read."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stream_can.recording.table import InvalidRecording

START = 4096
TIMES, LEAST_MOST = 100, 1 << 30
"""A packed file may unpack to so many times its size, and to so many bytes whatever its size."""
FREE_BYTES = 256 << 20
"""Bytes that a copy leaves free on its disk."""


@dataclass(frozen=True)
class SourceFile:
    """A file that can be read repeatedly; a temporary one is gone with this object."""

    path: Path
    """Path of the content."""
    name: str
    """Name for messages."""
    suffix: str
    """Suffix of its name, such as ".csv"; empty for standard input."""
    start: bytes
    """Its first bytes."""
    owner: object = None
    """What removes a temporary file when nobody refers to it any more."""


class Spool:
    """A temporary file that is written once and then read as a :class:`SourceFile`.

    It has no name where the system allows that (Linux), so nothing stays behind, however the
    process ends.

    Parameters
    ----------
    name
        Name of the recording, for messages.
    most
        Bytes that it may hold.
    """

    def __init__(self, name: str, most: float = math.inf) -> None:
        self._name, self._most, self._size, self._checked = name, most, 0, 0
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115, closed below
        self._path = Path(f"/proc/{os.getpid()}/fd/{self._file.fileno()}")
        if not self._path.exists():
            self._file = tempfile.NamedTemporaryFile(prefix="stream-can-")  # noqa: SIM115
            self._path = Path(self._file.name)
        weakref.finalize(self, self._file.close)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._size += len(data)
        if self._size > self._most:
            raise InvalidRecording(
                f"{self._name}: unpacks to over {self._most / 2**20:,.0f} MB, more than {TIMES}"
                " times its size; unpack it first, if that is right"
            )
        if self._size >= self._checked:
            self._checked = self._size + FREE_BYTES // 4
            free = shutil.disk_usage(tempfile.gettempdir()).free
            if free < FREE_BYTES:
                raise InvalidRecording(
                    f"{self._name}: its copy in {tempfile.gettempdir()!r} would leave less than"
                    f" {FREE_BYTES >> 20} MB free there; set TMPDIR to a folder with more room"
                )
        try:
            self._file.write(data)
        except OSError as error:
            raise InvalidRecording(
                f"{self._name}: cannot be copied to {tempfile.gettempdir()!r}: {error}"
            ) from None

    def source(self, suffix: str) -> SourceFile:
        """The file as it was written."""
        self._file.flush()
        return SourceFile(self._path, self._name, suffix, start_of(self._path), self)


def start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(START)


def most_bytes(source: SourceFile) -> int:
    """How many bytes a packed file may unpack to."""
    return max(LEAST_MOST, TIMES * source.path.stat().st_size)
