"""JSON lines as a table: one object per line, decoded without a schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from stream_can.recording.table import Batch, InvalidRecording, matrix, times_of

__all__ = ["JsonTable"]


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
