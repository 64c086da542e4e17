"""npz and npy files as tables; arrays are read as streams."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from stream_can.recording.pickled import read_objects
from stream_can.recording.spool import SourceFile
from stream_can.recording.table import (
    DATES,
    HEAD,
    Batch,
    InvalidRecording,
    LabelLines,
    Names,
    Times,
)


@contextmanager
def _read_errors(name: str) -> Iterator[None]:
    """Turn any error of reading a broken file into InvalidRecording."""
    try:
        yield
    except InvalidRecording:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise various errors
        why = str(error) or type(error).__name__
        raise InvalidRecording(f"{name}: not a readable npz file: {why}") from None


class NpzTable:
    """Arrays of equal length in an archive, or an npy file and that of its labels.

    Each is read as a stream and is never whole in memory, unless it is stored by columns or holds
    Python objects.
    """

    labels_apart = False
    label_lines = LabelLines()

    def __init__(self, source: SourceFile, names: Names) -> None:
        self._name = source.name
        self._files: dict[str, Path] = {}
        self._archive: zipfile.ZipFile | None = None
        with _read_errors(self._name):
            if source.start.startswith(b"PK"):
                self._archive = zipfile.ZipFile(source.path)
                files = [name[:-4] for name in self._archive.namelist() if name.endswith(".npy")]
            else:
                self._files[names.probs] = source.path
                if not names.label.endswith(".npy"):
                    raise InvalidRecording(
                        f"{self._name}: an npy file holds probabilities alone; "
                        "name the file of the labels as label: labels.npy"
                    )
                self._files[names.label] = Path(names.label)
                files = list(self._files)
            self._heads = {name: self._head(name) for name in files}
        # The longest matrix gives the number of rows; for two classes one number per row is enough.
        shapes = {name: shape for name, (shape, _, _) in self._heads.items()}
        for array, shape in shapes.items():
            if any(size < 0 for size in shape):
                raise InvalidRecording(f"{self._name}: array `{array}` says it has shape {shape}")
        self._require_equal_lengths(shapes, names)
        tables = [shape[0] for shape in shapes.values() if len(shape) == 2]
        if not tables and len(shapes.get(names.probs, ())) == 1:
            tables = [shapes[names.probs][0]]
        self.rows = max(tables, default=0)
        if not self.rows:
            raise InvalidRecording(
                f"{self._name}: no rows; expected an array `{names.probs}` of shape (n, m)"
            )
        self.columns = [name for name, shape in shapes.items() if shape[:1] == (self.rows,)]
        cells = {
            name: next(self._pieces(name, HEAD)).tolist()
            for name in self.columns
            if not self._heads[name][2].hasobject
        }
        self.head = [
            dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)
        ]
        self.first = self.head[0] if self.head else {}

    def _require_equal_lengths(self, shapes: dict[str, tuple[int, ...]], names: Names) -> None:
        """InvalidRecording where there are not as many labels as rows."""
        label = next((name for name in (names.label, "labels") if name in shapes), "")
        rows, labels = shapes.get(names.probs, ()), shapes.get(label, ())
        if not rows or not labels or rows[0] == labels[0]:
            return
        hint = ""
        if len(rows) == 2 and rows[1] == labels[0]:
            hint = f"; a row a class? Transpose it: {names.probs}={names.probs}.T"
        raise InvalidRecording(
            f"{self._name}: array `{names.probs}` has shape {rows}, and `{label}` {labels};"
            f" expected as many rows{hint}"
        )

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[IO[bytes], tuple[int, ...], bool, np.dtype[Any]]]:
        """Open an array's data as a stream; return its shape, whether it is by columns, its
        type."""
        opened: IO[bytes]
        if self._archive is None:
            opened = self._files[name].open("rb")
        else:
            opened = self._archive.open(f"{name}.npy")
        with opened as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            yield file, *read(file)

    def _head(self, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        with self._open(name) as (_, shape, by_columns, dtype):
            return shape, by_columns, dtype

    def _array(self, name: str) -> NDArray[Any]:
        """Read the whole array of this name."""
        with self._open(name) as (file, shape, by_columns, dtype):
            if dtype.hasobject:
                return read_objects(file, name)
            array = np.frombuffer(file.read(), dtype)
        return array.reshape(shape[::-1]).T if by_columns else array.reshape(shape)

    def _pieces(self, name: str, size: int) -> Iterator[NDArray[Any]]:
        """Read the rows of an array, ``size`` at a time."""
        shape, by_columns, dtype = self._heads[name]
        if dtype.hasobject or (by_columns and len(shape) > 1):
            array = self._array(name)
            for start in range(0, self.rows, size):
                yield array[start : start + size]
            return
        wide = int(np.prod(shape[1:]))
        with self._open(name) as (file, *_):
            for start in range(0, self.rows, size):
                n = min(size, self.rows - start)
                data = file.read(n * wide * dtype.itemsize)
                yield np.frombuffer(data, dtype).reshape(n, *shape[1:])

    def cell(self, name: str) -> Any:
        return self.first.get(name)

    def extra(self, name: str) -> NDArray[Any] | None:
        return self._array(name) if name in self._heads else None

    def batches(
        self, probs: list[str], label: str, times: list[str], size: int, segments: list[str]
    ) -> Iterator[Batch]:
        """See `Table.batches`."""
        names = [*probs, label, *times, *segments]
        behind = len(names) - len(segments)
        with _read_errors(self._name):
            for arrays in zip(*(self._pieces(name, size) for name in names), strict=True):
                columns = arrays[: len(probs)]
                P = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
                yield Batch(
                    np.asarray(P, np.float64, order="C") if P.ndim == 2 else P.tolist(),
                    _names(arrays[len(probs)]),
                    [self._times(array) for array in arrays[len(probs) + 1 : behind]],
                    [_names(array) for array in arrays[behind:]],
                )

    @staticmethod
    def _times(array: NDArray[Any]) -> Times:
        if array.dtype.kind == "M":
            return Times(array.astype("datetime64[us]").astype(np.int64), np.isnat(array), DATES)
        missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), np.bool_)
        return Times(array, missing, "")


def _names(labels: NDArray[Any]) -> list[Any]:
    """Labels as Python values: a column (n, 1) is flattened, bytes become text, and with several
    labels a row is an array."""
    if labels.ndim == 2 and labels.shape[1] != 1:
        return list(labels)
    if labels.ndim == 2:
        labels = labels[:, 0]
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    return list(labels.tolist())
