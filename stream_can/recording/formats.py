"""Which reader for which file: by its name's ending, checked against its first bytes."""

from __future__ import annotations

from pathlib import Path

from stream_can.recording.table import InvalidRecording, Table

__all__ = ["open_table"]

SUFFIXES = {
    ".csv": "csv",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
    ".parquet": "parquet",
    ".npz": "npz",
}


def open_table(path: str | Path) -> Table:
    """Open a file by its name's ending, and check that it holds what the name says."""
    path = Path(path)
    said = SUFFIXES.get(path.suffix.lower())
    if said is None:
        endings = ", ".join(SUFFIXES)
        raise InvalidRecording(f"{path}: cannot tell the format; the name should end in {endings}")
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise InvalidRecording(f"{path}: the file is empty")
    found = _looks_like(start)
    if found != said:
        raise InvalidRecording(f"{path}: named like {said}, but what it holds looks like {found}")
    # Only what the format needs is imported: polars is an extra, and takes a while.
    if said == "npz":
        from stream_can.recording.npz import NpzTable

        return NpzTable(path)
    if said == "JSON lines":
        from stream_can.recording.jsonlines import JsonTable

        return JsonTable(path)
    from stream_can.recording.csv_parquet import FrameTable

    return FrameTable(path, said)


def _looks_like(start: bytes) -> str:
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh")):
        return "a compressed file (unpack it first)"
    if b"\0" in start:
        return "a binary file"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "JSON lines"
    if start.lstrip().startswith(b"["):
        return "a JSON array (one object per line is needed)"
    return "csv"
