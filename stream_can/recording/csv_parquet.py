"""CSV, Parquet and Feather tables, read in batches by polars."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.recording.cells import times_of
from stream_can.recording.source import SourceFile
from stream_can.recording.table import DATES, Batch, InvalidRecording, LabelLines, Times

try:
    import polars as pl
except ImportError:
    raise StreamCANError(
        "csv, parquet and feather are read by polars: pip install 'stream_can[report]'"
    ) from None

__all__ = ["FrameTable"]

DAMAGED = pl.exceptions.PolarsError, pl.exceptions.PanicException
"""What polars raises where a file cannot be read; a panic is no Exception."""
_quiet = threading.Lock()


@contextlib.contextmanager
def _without_panics() -> Iterator[None]:
    """Keep what a panic of polars prints from the screen: the error tells it.

    Trap: Rust prints it to file descriptor 2, whatever `sys.stderr` is. All else that is written
    there meanwhile follows at the end.
    """
    with _quiet, tempfile.TemporaryFile() as said:
        screen = os.dup(2)
        os.dup2(said.fileno(), 2)
        damaged = False
        try:
            yield
        except DAMAGED:
            damaged = True
            raise
        finally:
            os.dup2(screen, 2)
            os.close(screen)
            said.seek(0)
            if not damaged and (text := said.read()):
                os.write(2, text)


class FrameTable:
    """A csv, parquet or feather file."""

    labels_apart = False
    label_lines = LabelLines()

    def __init__(self, source: SourceFile, form: str) -> None:
        self._path, self._name, self._form = source.path, source.name, form
        self._separator, self._decimal_comma = _dialect(source.start) if form == "csv" else ("", 0)
        try:
            with _without_panics():
                scan = self._scan({})
                self.columns = scan.collect_schema().names()
                self.rows = int(scan.select(pl.len()).collect().item())
                first = scan.head(1).collect()
            if self.rows == 0:
                raise InvalidRecording(f"{self._name}: no rows, only the header")
            for name in scan.collect_schema():
                base, duplicated, _ = name.rpartition("_duplicated_")  # the name that polars gives
                if form == "csv" and duplicated and base in scan.collect_schema():
                    raise InvalidRecording(f"{self._name}: two columns have the header {base!r}")
            self.first = first.row(0, named=True)
        except (*DAMAGED, OSError) as error:
            raise InvalidRecording(f"{self._name}: not a readable {form} file: {error}") from None

    def _scan(self, types: dict[str, Any]) -> pl.LazyFrame:
        if self._form == "parquet":
            return pl.scan_parquet(self._path)
        if self._form == "feather":
            return pl.scan_ipc(self._path)
        return pl.scan_csv(
            self._path,
            schema_overrides=types,
            try_parse_dates=True,
            infer_schema_length=1000,
            separator=self._separator,
            decimal_comma=bool(self._decimal_comma),
        )

    def cell(self, name: str) -> Any:
        value: Any = self.first
        for part in [name] if name in self.first else name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def extra(self, name: str) -> NDArray[Any] | None:
        return None

    def _column(self, name: str) -> pl.Expr:
        if name in self.first:
            return pl.col(name)
        outer, *inner = name.split(".")
        column = pl.col(outer)
        for part in inner:
            column = column.struct.field(part)
        return column.alias(name)

    def batches(
        self, probs: list[str], label: str, times: list[str], size: int, segments: list[str]
    ) -> Iterator[Batch]:
        """See `Table.batches`; reads only the needed columns."""
        # A label that looks like a number in the first rows may be a word further down, and so may
        # a value of a column. Where the first rows look like fractions, numbers are compared.
        types: dict[str, Any] = {label: pl.String} | dict.fromkeys(segments, pl.String)
        schema = self._scan({}).collect_schema() if segments else {}
        fractions = {name for name in segments if name in schema and schema[name].is_float()}
        if len(probs) > 1:
            types |= dict.fromkeys(probs, pl.Float64)
        first = 0
        names = dict.fromkeys([*probs, label, *times, *segments])
        frame = self._scan(types).select(self._column(name) for name in names)
        try:
            with _without_panics():
                parts = iter(frame.collect_batches(chunk_size=size, maintain_order=True))
            while True:
                with _without_panics():
                    part = next(parts, None)
                if part is None:
                    return
                yield Batch(
                    self._probs(part, probs, first),
                    part[label].to_list(),
                    [self._times(part[name], first) for name in times],
                    [
                        [_number(cell) for cell in part[name]]
                        if name in fractions
                        else part[name].to_list()
                        for name in segments
                    ],
                )
                first += len(part)
        except DAMAGED as error:
            reason = str(error).splitlines()[0]
            raise InvalidRecording(f"{self._name}: after row {first}: {reason}") from None

    def _probs(
        self, part: pl.DataFrame, probs: list[str], first: int
    ) -> NDArray[np.float64] | list[Any]:
        if len(probs) == 1:
            return _cells(part[probs[0]])
        for name in probs:
            if (kind := part[name].dtype).is_nested():
                raise InvalidRecording(
                    f"{self._name}: column {name!r} holds {kind}, expected numbers"
                )
        try:
            numbers = part.select(pl.col(probs).cast(pl.Float64))
        except pl.exceptions.PolarsError as error:
            raise InvalidRecording(f"{self._name}: rows {first + 1} on: {error}") from None
        return np.ascontiguousarray(numbers.to_numpy(), np.float64)

    def _times(self, column: pl.Series, first: int) -> Times:
        if column.dtype.is_temporal() and column.dtype != pl.Time:
            moments = column.cast(pl.Datetime("us")).cast(pl.Int64)
            return Times(moments.fill_null(0).to_numpy(), column.is_null().to_numpy(), DATES)
        if column.dtype.is_numeric():
            values = column.fill_null(0).to_numpy()
            missing = column.is_null().to_numpy()
            return Times(values, missing | np.isnan(values), "")
        return times_of(self._name, column.name, column.to_list(), first)


def _cells(column: pl.Series) -> NDArray[np.float64] | list[Any]:
    """Lists of equal length as a matrix, other cells unchanged."""
    if isinstance(column.dtype, pl.Array) and not column.has_nulls():
        return np.ascontiguousarray(column.to_numpy(), np.float64)
    if (
        isinstance(column.dtype, pl.List)
        and column.dtype.inner.is_numeric()
        and not column.has_nulls()
    ):
        lengths = column.list.len()
        if lengths.min() == lengths.max():
            return column.explode().cast(pl.Float64).to_numpy().reshape(len(column), -1)
    return column.to_list()


def _number(cell: Any) -> Any:
    """Parse a CSV cell as a number where it is one."""
    try:
        return float(cell) if isinstance(cell, str) else cell
    except ValueError:
        return cell


def _dialect(start: bytes) -> tuple[str, bool]:
    """Detect a CSV file's separator and decimal commas from its first lines."""
    header, _, rest = start.decode(errors="replace").partition("\n")
    plain = re.sub(r'"[^"]*"', "", header)
    separator = max(",;\t|", key=plain.count)
    second = rest.partition("\n")[0]
    return separator, separator == ";" and bool(re.search(r"(^|;)-?\d*,\d+(;|\r?$)", second))
