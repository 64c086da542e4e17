"""npz as a table: the arrays of the archive, read as streams."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.recording.table import DATES, Batch, InvalidRecording, Times

__all__ = ["NpzTable"]


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
