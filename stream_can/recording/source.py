"""Open a recording as a plain file: standard input, compressed files and Avro container files are
copied to a temporary one."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import sys
import tempfile
import weakref
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from stream_can.errors import StreamCANError
from stream_can.recording.table import InvalidRecording

__all__ = ["SourceFile", "open_source"]

PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
CONTAINER = b"Obj\x01"
"""First bytes of an Avro object container file."""
SUFFIXES = (".gz", ".bz2", ".xz")
START = 4096


@dataclass(frozen=True)
class SourceFile:
    """A file that can be read repeatedly; a temporary one is removed with this object."""

    path: Path
    """Path of the content."""
    name: str
    """Name for messages."""
    suffix: str
    """Suffix of its name, such as ".csv"; empty for standard input."""
    start: bytes
    """Its first bytes."""


def open_source(path: str | Path) -> SourceFile:
    """Open a file by name, or standard input for ``-``; decompress it."""
    if str(path) == "-":
        source = _copy(sys.stdin.buffer, "standard input", "")
    else:
        path = Path(path)
        source = SourceFile(path, str(path), path.suffix.lower(), _start(path))
    unpack = next((PACKED[magic] for magic in PACKED if source.start.startswith(magic)), None)
    if unpack is not None and source.suffix in ("", *SUFFIXES):
        suffix = Path(source.path.stem).suffix.lower() if source.suffix else ""
        try:
            with unpack(source.path) as packed:
                source = _copy(packed, source.name, suffix)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise InvalidRecording(f"{source.name}: cannot be unpacked: {error}") from None
    if source.start.startswith(CONTAINER) and source.suffix in ("", ".avro"):
        source = _lines_of(source)
    if not source.start.strip():
        raise InvalidRecording(f"{source.name}: the file is empty")
    return source


def _copy(stream: IO[bytes], name: str, suffix: str) -> SourceFile:
    """Copy a stream to a temporary file."""
    number, path = tempfile.mkstemp(prefix="stream-can-")
    try:
        with os.fdopen(number, "wb") as file:
            shutil.copyfileobj(stream, file)
        source = SourceFile(Path(path), name, suffix, _start(Path(path)))
    except BaseException:
        os.unlink(path)
        raise
    weakref.finalize(source, Path(path).unlink, missing_ok=True)
    return source


def _lines_of(source: SourceFile) -> SourceFile:
    """Convert an Avro container file to JSON lines.

    Times of logical types become dates, enums their symbols, bytes base64.
    """
    try:
        import fastavro
    except ImportError:
        text = "Avro is read by fastavro: pip install 'stream_can[avro]'"
        raise StreamCANError(text) from None
    write, records = msgspec.json.Encoder(enc_hook=str).encode, 0
    with tempfile.TemporaryFile() as lines, source.path.open("rb") as file:
        try:
            for record in fastavro.reader(file):
                lines.write(write(record) + b"\n")
                records += 1
        except Exception as error:  # fastavro raises various errors
            why = str(error) or type(error).__name__
            raise InvalidRecording(f"{source.name}: after record {records}: {why}") from None
        if not records:
            raise InvalidRecording(f"{source.name}: no records, only the schema")
        lines.seek(0)
        return _copy(lines, source.name, ".jsonl")


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(START)
