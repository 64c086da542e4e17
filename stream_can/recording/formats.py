"""Select the reader for a file by its suffix, verified by its first bytes."""

from __future__ import annotations

from stream_can.recording.spool import SourceFile
from stream_can.recording.table import InvalidRecording, Names, Table

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".avro": "avro",
    ".npz": "npz",
    ".npy": "npy",
}
EXCEL = (".xlsx", ".xls", ".xlsm")
MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "feather",
    b"Obj\x01": "avro",
    b"PK\x03\x04": "npz",
    b"\x93NUMPY": "npy",
    b"\x28\xb5\x2f\xfd": "a zstd file (unpack it first)",
    b"\x1f\x8b": "a compressed file (name it .gz)",
}


def open_table(source: SourceFile, names: Names) -> Table:
    """Open a file as a table, if its content matches its name.

    Parameters
    ----------
    names
        Names of the columns, for formats that need them.
    """
    content = _looks_like(source.start)
    if source.suffix in EXCEL or b"[Content_Types].xml" in source.start:
        raise InvalidRecording(f"{source.name}: an Excel file; save its sheet as CSV")
    file_format = SUFFIXES.get(source.suffix) if source.suffix else content
    if file_format is None:
        endings = ", ".join(SUFFIXES)
        raise InvalidRecording(
            f"{source.name}: cannot tell the format; the name should end in {endings}"
        )
    if content != file_format:
        raise InvalidRecording(
            f"{source.name}: named like {file_format}, but what it holds looks like {content}"
        )
    # Only the needed format is imported: polars is optional, and slow to import.
    if file_format in ("npz", "npy"):
        from stream_can.recording.npz import NpzTable

        return NpzTable(source, names)
    if file_format == "JSON lines":
        from stream_can.recording.jsonlines import JsonTable

        return JsonTable(source, names)
    if file_format not in ("csv", "parquet", "feather"):
        raise InvalidRecording(f"{source.name}: looks like {file_format}")
    from stream_can.recording.csv_parquet import FrameTable

    return FrameTable(source, file_format)


def _looks_like(start: bytes) -> str:
    for magic, name in MAGIC.items():
        if start.startswith(magic):
            return name
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text (save it as UTF-8)"
    if b"\0" in start:
        return "a binary file"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return "JSON lines"
    return "csv"
