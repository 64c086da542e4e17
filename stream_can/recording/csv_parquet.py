"""csv and parquet as tables, read by polars a batch at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.recording.table import DATES, Batch, InvalidRecording, Times, matrix, times_of

try:
    import polars as pl
except ImportError:
    raise StreamCANError(
        "csv and parquet are read by polars: pip install 'stream_can[report]'"
    ) from None

__all__ = ["FrameTable"]


class FrameTable:
    """A csv or parquet file."""

    def __init__(self, path: Path, form: str) -> None:
        self._path, self._form = path, form
        try:
            scan = self._scan({})
            self._schema = scan.collect_schema()
            self.rows = int(scan.select(pl.len()).collect().item())
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InvalidRecording(f"{path}: not a readable {form} file: {error}") from None
        self.columns = self._schema.names()
        if self.rows == 0:
            raise InvalidRecording(f"{path}: no rows, only the header")

    def _scan(self, types: dict[str, Any]) -> pl.LazyFrame:
        if self._form == "parquet":
            return pl.scan_parquet(self._path)
        return pl.scan_csv(
            self._path, schema_overrides=types, try_parse_dates=True, infer_schema_length=1000
        )

    def cells(self, name: str) -> int | list[str] | None:
        kind = self._schema[name]
        if isinstance(kind, pl.Struct):
            return [field.name for field in kind.fields]
        cell = self._scan({}).select(name).head(1).collect().item()
        if isinstance(cell, str) and cell.lstrip().startswith("["):
            cell = _json(self._path, [cell], 0)[0]
        return len(cell) if isinstance(cell, list | pl.Series) else None

    def extra(self, name: str) -> NDArray[Any] | None:
        return None

    def batches(
        self, probs: list[str], keys: list[str] | None, label: str, times: list[str], size: int
    ) -> Iterator[Batch]:
        # A label that looks like a number in the first rows may be a word further down.
        types: dict[str, Any] = {label: pl.String}
        if len(probs) > 1:
            types |= dict.fromkeys(probs, pl.Float64)
        first = 0
        frame = self._scan(types).select(*dict.fromkeys([*probs, label, *times]))
        try:
            for part in frame.collect_batches(chunk_size=size, maintain_order=True):
                yield Batch(
                    self._probs(part, probs, keys, first),
                    part[label].to_list(),
                    [self._times(part[name], first) for name in times],
                )
                first += len(part)
        except pl.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
            raise InvalidRecording(f"{self._path}: after row {first}: {reason}") from None

    def _probs(
        self, part: pl.DataFrame, probs: list[str], keys: list[str] | None, first: int
    ) -> NDArray[np.float64]:
        if keys is not None:
            part, probs = part[probs[0]].struct.unnest(), keys
        elif len(probs) == 1:
            cells = part[probs[0]]
            if isinstance(cells.dtype, pl.Array) and not cells.has_nulls():
                return np.ascontiguousarray(cells.to_numpy(), np.float64)
            if cells.dtype == pl.String:
                return matrix(self._path, _json(self._path, cells.to_list(), first), first)
            if isinstance(cells.dtype, pl.List) and not cells.has_nulls():
                lengths = cells.list.len()
                if lengths.min() == lengths.max():
                    return cells.explode().cast(pl.Float64).to_numpy().reshape(len(cells), -1)
            return matrix(self._path, cells.to_list(), first)
        try:
            numbers = part.select(pl.col(probs).cast(pl.Float64))
        except pl.exceptions.PolarsError as error:
            raise InvalidRecording(f"{self._path}: rows {first + 1} on: {error}") from None
        return np.ascontiguousarray(numbers.to_numpy(), np.float64)

    def _times(self, column: pl.Series, first: int) -> Times:
        if column.dtype.is_temporal() and column.dtype != pl.Time:
            moments = column.cast(pl.Datetime("us")).cast(pl.Int64)
            return Times(moments.fill_null(0).to_numpy(), column.is_null().to_numpy(), DATES)
        if column.dtype.is_numeric():
            values = column.fill_null(0).to_numpy()
            missing = column.is_null().to_numpy()
            return Times(values, missing | np.isnan(values), "")
        return times_of(self._path, column.name, column.to_list(), first)


def _json(path: Path, cells: list[Any], first: int) -> list[Any]:
    """Text cells such as "[0.2, 0.8]"."""
    try:
        return [None if cell is None else json.loads(cell) for cell in cells]
    except ValueError as error:
        raise InvalidRecording(f"{path}: rows {first + 1} on: {error}") from None
