"""Open a recording as a plain file: standard input, compressed files, Avro container files, Arrow
streams and folders of parts are copied to a temporary one."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import sys
import zlib
from pathlib import Path
from typing import IO, Any

import msgspec

from stream_can.errors import StreamCANError
from stream_can.recording.spool import SourceFile, Spool, most_bytes, start_of
from stream_can.recording.table import InvalidRecording

PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
CONTAINER = b"Obj\x01"
"""First bytes of an Avro object container file."""
ARROW_STREAM = b"\xff\xff\xff\xff"
"""First bytes of an Arrow stream, as Hugging Face's datasets are stored."""
SUFFIXES = (".gz", ".bz2", ".xz")
PARTS = {".parquet", ".arrow", ".jsonl", ".json", ".ndjson", ".csv", ".tsv"}
"""Suffixes of files that a folder may be joined of."""
CHUNK = 1 << 20


def open_source(path: str | Path) -> SourceFile:
    """Open a file by name, or standard input for ``-``; decompress it."""
    if str(path) == "-":
        source = _copy(sys.stdin.buffer, "standard input", "")
    elif Path(path).is_dir():
        source = _joined(Path(path))
    else:
        path = Path(path)
        source = SourceFile(path, str(path), path.suffix.lower(), start_of(path))
    unpack = next((PACKED[magic] for magic in PACKED if source.start.startswith(magic)), None)
    if unpack is not None and source.suffix in ("", *SUFFIXES):
        suffix = Path(source.path.stem).suffix.lower() if source.suffix else ""
        try:
            with unpack(source.path) as packed:
                source = _copy(packed, source.name, suffix, most_bytes(source))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise InvalidRecording(f"{source.name}: cannot be unpacked: {error}") from None
    if source.start.startswith(CONTAINER) and source.suffix in ("", ".avro"):
        source = _lines_of(source)
    if source.start.startswith(ARROW_STREAM):
        source = _tables_of([source.path], source.name, ".arrow")
    if not source.start.strip():
        raise InvalidRecording(f"{source.name}: the file is empty")
    return source


def _copy(stream: IO[bytes], name: str, suffix: str, most: float = math.inf) -> SourceFile:
    """Copy a stream to a temporary file."""
    spool = Spool(name, most)
    while data := stream.read(CHUNK):
        spool.write(data)
    return spool.source(suffix)


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
    lines = Spool(source.name, most_bytes(source))
    with source.path.open("rb") as file:
        try:
            for record in fastavro.reader(file):
                lines.write(write(record) + b"\n")
                records += 1
        except InvalidRecording:
            raise
        except Exception as error:  # fastavro raises various errors
            why = str(error) or type(error).__name__
            raise InvalidRecording(f"{source.name}: after record {records}: {why}") from None
        if not records:
            raise InvalidRecording(f"{source.name}: no records, only the schema")
    return lines.source(".jsonl")


def _joined(folder: Path) -> SourceFile:
    """Join the parts that a folder holds, as Spark and others write them, in the order of their
    names; names that begin with _ or . are no parts."""
    parts = sorted(path for path in folder.iterdir() if path.name[0] not in "_.")
    suffixes = {path.suffix.lower() for path in parts}
    if len(suffixes) != 1 or not suffixes <= PARTS:
        endings = ", ".join(sorted(suffixes)) or "nothing"
        raise InvalidRecording(
            f"{folder}: a folder with {endings}, expected parts of one sort: .parquet, .arrow,"
            " .jsonl, .csv"
        )
    (suffix,) = suffixes
    if suffix in (".csv", ".tsv"):
        return _joined_tables(parts, str(folder), suffix)
    if suffix in (".parquet", ".arrow"):
        return _tables_of(parts, str(folder), suffix)
    spool = Spool(str(folder))
    for part in parts:
        with part.open("rb") as file:
            while data := file.read(CHUNK):
                spool.write(data)
    return spool.source(".jsonl")


def _joined_tables(parts: list[Path], name: str, suffix: str) -> SourceFile:
    """Join csv files, each with the same header."""
    spool, header = Spool(name), b""
    for part in parts:
        with part.open("rb") as file:
            first = file.readline().removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
            if part != parts[0] and first and first != header:
                raise InvalidRecording(
                    f"{name}: {part.name} begins with another line than {parts[0].name}; each part"
                    " needs the same header (Spark: option('header', True))"
                )
            if part == parts[0]:
                header = first
                spool.write(first + b"\n")
            end = b"\n"
            while data := file.read(CHUNK):
                spool.write(data)
                end = data[-1:]
            if end != b"\n":
                spool.write(b"\n")
    return spool.source(suffix)


def _tables_of(parts: list[Path], name: str, suffix: str) -> SourceFile:
    """Copy parquet files, or Arrow streams and files, to one parquet file."""
    try:
        import polars as pl
    except ImportError:
        text = "parquet and Arrow are read by polars: pip install 'stream_can[report]'"
        raise StreamCANError(text) from None
    spool = Spool(name)
    try:
        if suffix == ".parquet":
            frame = pl.concat([pl.read_parquet(part) for part in parts])
        else:
            streams = [start_of(part).startswith(ARROW_STREAM) for part in parts]
            frame = pl.concat([
                pl.read_ipc_stream(part) if stream else pl.read_ipc(part)
                for part, stream in zip(parts, streams, strict=True)
            ])  # fmt: skip
        with io.BytesIO() as table:
            frame.write_parquet(table)
            spool.write(table.getvalue())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InvalidRecording(f"{name}: cannot be read: {str(error).splitlines()[0]}") from None
    return spool.source(".parquet")
