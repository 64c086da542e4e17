"""Avro object container files, as JSON lines: one record a line, and all their shapes."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path

import msgspec

from stream_can.errors import StreamCANError
from stream_can.recording.source import Source
from stream_can.recording.table import InvalidRecording

try:
    import fastavro
except ImportError:
    raise StreamCANError("Avro is read by fastavro: pip install 'stream_can[avro]'") from None

__all__ = ["as_lines"]

_write = msgspec.json.Encoder(enc_hook=str).encode


def as_lines(source: Source) -> Source:
    """The records of a container file in a temporary one of JSON lines, which goes with it.

    Times of logical types become dates, enums their symbols, bytes base64.
    """
    number, path = tempfile.mkstemp(prefix="stream-can-", suffix=".jsonl")
    records = 0
    try:
        with os.fdopen(number, "wb") as lines, source.path.open("rb") as file:
            for record in fastavro.reader(file):
                lines.write(_write(record) + b"\n")
                records += 1
    except Exception as error:  # fastavro's are of many kinds
        os.unlink(path)
        why = str(error) or type(error).__name__
        raise InvalidRecording(f"{source.name}: after record {records}: {why}") from None
    except BaseException:
        os.unlink(path)
        raise
    with open(path, "rb") as file:
        made = Source(Path(path), source.name, ".jsonl", file.read(4096))
    weakref.finalize(made, Path(path).unlink, missing_ok=True)
    if not records:
        raise InvalidRecording(f"{source.name}: no records, only the schema")
    return made
