"""A table on disk, batch by batch in bounded memory: csv, JSON lines, parquet or npz.

Every format answers the same four questions: which columns are there, what the cells of one hold,
how many rows there are, and the next batch of some columns.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from .errors import StreamCANError

__all__ = ["Batch", "InvalidRecording", "Table", "Times", "open_table"]

SUFFIXES = {
    ".csv": "csv",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
    ".parquet": "parquet",
    ".npz": "npz",
}
DATES = "dates"
"""What :attr:`Times.unit` says where times are microseconds since 1970, not plain numbers."""


class InvalidRecording(StreamCANError, ValueError):
    """A file cannot be replayed; the message names the file, where possible the row, and why."""


class Times(NamedTuple):
    """A column of times: int64 or float64 of shape (n,), where one is missing, and in what unit."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    unit: str


class Batch(NamedTuple):
    """Some rows of a table."""

    probs: NDArray[np.float64]
    """Shape (n, m); nan where a cell is empty."""
    labels: list[Any]
    """n names, None where there is none."""
    times: list[Times]


class Table(Protocol):
    """A file as a table."""

    columns: list[str]
    rows: int

    def cells(self, name: str) -> int | list[str] | None:
        """What a cell of the first row holds: m for a list, names for an object, None otherwise."""

    def extra(self, name: str) -> NDArray[Any] | None:
        """An array that is kept beside the rows, such as `classes`; only npz has any."""

    def batches(
        self, probs: list[str], keys: list[str] | None, label: str, times: list[str], size: int
    ) -> Iterator[Batch]:
        """The rows in order, up to `size` at a time.

        `probs` are the columns of one class each, or the one column of lists, or of objects whose
        `keys` are given.
        """


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
    if said == "npz":
        return NpzTable(path)
    if said == "JSON lines":
        return JsonTable(path)
    from . import frames  # polars takes a while to import, and npz and JSON lines do without

    return frames.FrameTable(path, said)


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


def matrix(path: Path, cells: list[Any], first: int) -> NDArray[np.float64]:
    """Lists of numbers to an (n, m) array; an entry that is None becomes nan."""
    try:
        array = np.array(cells, np.float64)
        if array.ndim == 2:
            return array
    except (ValueError, TypeError):
        pass
    m = next((len(cell) for cell in cells if isinstance(cell, list)), 0)
    for i, cell in enumerate(cells):
        if not isinstance(cell, list):
            raise InvalidRecording(
                f"{path}: row {first + i + 1}: expected a list of numbers, got {cell!r}"
            )
        if len(cell) != m:
            raise InvalidRecording(
                f"{path}: row {first + i + 1}: {len(cell)} probabilities, expected {m}: "
                "a class is missing"
            )
        for entry in cell:
            if entry is not None and not isinstance(entry, int | float):
                raise InvalidRecording(f"{path}: row {first + i + 1}: {entry!r} is not a number")
    raise InvalidRecording(f"{path}: rows {first + 1} on: not lists of numbers")


def times_of(path: Path, name: str, values: list[Any], first: int) -> Times:
    """Numbers, or dates as ISO 8601 text; None is missing."""
    missing = np.array([value is None for value in values], np.bool_)
    unit = ""
    numbers: list[float] = []
    for i, value in enumerate(values):
        try:
            if isinstance(value, str):
                date = datetime.fromisoformat(value)
                utc = (date.replace(tzinfo=None) - (date.utcoffset() or date - date)) - datetime(
                    1970, 1, 1
                )
                numbers.append((utc.days * 86400 + utc.seconds) * 1_000_000 + utc.microseconds)
                unit = DATES
            elif value is None:
                numbers.append(0)
            else:
                numbers.append(value + 0)
        except (ValueError, TypeError):
            raise InvalidRecording(
                f"{path}: row {first + i + 1}: {name} is {value!r}, "
                "expected a number or an ISO 8601 date"
            ) from None
    return Times(np.array(numbers), missing, unit)


class JsonTable:
    """One JSON object per line, decoded without a schema: what is wrong is named by its line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first = next(self._objects(), None)
        if self._first is None:
            raise InvalidRecording(f"{path}: no rows")
        self.columns = list(self._first)
        with path.open("rb") as file:
            self.rows = sum(1 for line in file if not line.isspace())

    def _objects(self) -> Iterator[dict[str, Any]]:
        decode = msgspec.json.Decoder(dict[str, Any]).decode
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.isspace():
                    continue
                try:
                    yield decode(line)
                except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                    raise InvalidRecording(f"{self._path}: line {number}: {error}") from None

    def cells(self, name: str) -> int | list[str] | None:
        assert self._first is not None
        cell = self._first[name]
        return (
            len(cell) if isinstance(cell, list) else list(cell) if isinstance(cell, dict) else None
        )

    def extra(self, name: str) -> NDArray[Any] | None:
        return None

    def batches(
        self, probs: list[str], keys: list[str] | None, label: str, times: list[str], size: int
    ) -> Iterator[Batch]:
        first, rows = 0, list[dict[str, Any]]()
        for row in self._objects():
            rows.append(row)
            if len(rows) == size:
                yield self._batch(rows, first, probs, keys, label, times)
                first, rows = first + size, []
        if rows:
            yield self._batch(rows, first, probs, keys, label, times)

    def _batch(
        self,
        rows: list[dict[str, Any]],
        first: int,
        probs: list[str],
        keys: list[str] | None,
        label: str,
        times: list[str],
    ) -> Batch:
        cells: list[Any]
        if keys is not None:
            cells = [
                self._entries(row.get(probs[0]), keys, first + i) for i, row in enumerate(rows)
            ]
        elif len(probs) == 1:
            cells = [row.get(probs[0]) for row in rows]
        else:
            cells = [self._entries(row, probs, first + i) for i, row in enumerate(rows)]
        return Batch(
            matrix(self._path, cells, first),
            [row.get(label) for row in rows],
            [times_of(self._path, name, [row.get(name) for row in rows], first) for name in times],
        )

    def _entries(self, row: Any, keys: list[str], number: int) -> list[Any]:
        try:
            return [row[key] for key in keys]
        except (KeyError, TypeError) as error:
            what = f"class {error} is missing" if isinstance(error, KeyError) else f"got {row!r}"
            raise InvalidRecording(f"{self._path}: row {number + 1}: {what}") from None


class NpzTable:
    """Arrays of one length, read from the archive as a stream: no array is ever whole in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._archive = zipfile.ZipFile(path)
            members = [name[:-4] for name in self._archive.namelist() if name.endswith(".npy")]
            headers = {name: self._open(name)[1:] for name in members}
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise InvalidRecording(f"{path}: not a readable npz file: {error}") from None
        self._shapes = {name: shape for name, (shape, _) in headers.items()}
        self.rows = max((shape[0] for shape in self._shapes.values() if len(shape) == 2), default=0)
        if not self.rows:
            raise InvalidRecording(f"{path}: no rows; expected an array `probs` of shape (n, m)")
        self.columns = [name for name, shape in self._shapes.items() if shape[:1] == (self.rows,)]

    def _open(self, name: str) -> tuple[Any, tuple[int, ...], np.dtype[Any]]:
        file = self._archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise ValueError(f"array {name} holds Python objects, which are never unpickled")
        if fortran and len(shape) > 1:
            raise ValueError(
                f"array {name} is stored by columns; save numpy.ascontiguousarray of it"
            )
        return file, shape, dtype

    def _pieces(self, name: str, size: int) -> Iterator[NDArray[Any]]:
        file, shape, dtype = self._open(name)
        wide = int(np.prod(shape[1:]))
        with file:
            for start in range(0, self.rows, size):
                n = min(size, self.rows - start)
                data = file.read(n * wide * dtype.itemsize)
                yield np.frombuffer(data, dtype).reshape(n, *shape[1:])

    def cells(self, name: str) -> int | list[str] | None:
        shape = self._shapes[name]
        return shape[1] if len(shape) == 2 else None

    def extra(self, name: str) -> NDArray[Any] | None:
        if name not in self._shapes:
            return None
        file, shape, dtype = self._open(name)
        with file:
            return np.frombuffer(file.read(), dtype).reshape(shape)

    def batches(
        self, probs: list[str], keys: list[str] | None, label: str, times: list[str], size: int
    ) -> Iterator[Batch]:
        names = [*probs, label, *times]
        try:
            for arrays in zip(*(self._pieces(name, size) for name in names), strict=True):
                columns = arrays[: len(probs)]
                P = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
                yield Batch(
                    P.astype(np.float64),
                    arrays[len(probs)].tolist(),
                    [self._times(array) for array in arrays[len(probs) + 1 :]],
                )
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise InvalidRecording(f"{self._path}: not a readable npz file: {error}") from None

    @staticmethod
    def _times(array: NDArray[Any]) -> Times:
        if array.dtype.kind == "M":
            return Times(array.astype("datetime64[us]").astype(np.int64), np.isnat(array), DATES)
        missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), np.bool_)
        return Times(array, missing, "")
