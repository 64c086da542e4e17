"""CSV, Parquet and Feather tables, read in batches by polars."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.recording.cells import times_of
from stream_can.recording.csv_dialect import dialect_of
from stream_can.recording.frame_cells import cells_of, number_or_text, numbers_of, with_point
from stream_can.recording.spool import SourceFile
from stream_can.recording.table import DATES, HEAD, Batch, InvalidRecording, LabelLines, Times

try:
    import polars as pl
except ImportError:
    raise StreamCANError(
        "csv, parquet and feather are read by polars: pip install 'stream_can[report]'"
    ) from None

DAMAGED = pl.exceptions.PolarsError, pl.exceptions.PanicException
"""What polars raises where a file cannot be read; a panic is no Exception."""
UNLIKE = re.compile(r"could not parse `(.*)` as dtype `(\S+)` at column '(.*?)'")
"""What it says of a cell of another type than the first rows."""
ROW = "\0row"
"""A name that no column of a file has."""
JUDGED = 1000
"""Number of rows by which the types of a csv file's columns are judged."""
_quiet = threading.Lock()


@contextlib.contextmanager
def _without_panics() -> Iterator[None]:
    """Keep what a panic of polars prints from the screen: the error tells it.

    Trap: Rust prints it to file descriptor 2, whatever `sys.stderr` is. All else that is written
    there meanwhile follows at the end.
    """
    with _quiet, tempfile.TemporaryFile() as printed:
        screen = os.dup(2)
        os.dup2(printed.fileno(), 2)
        damaged = False
        try:
            yield
        except DAMAGED:
            damaged = True
            raise
        finally:
            os.dup2(screen, 2)
            os.close(screen)
            printed.seek(0)
            if not damaged and (text := printed.read()):
                os.write(2, text)


class FrameTable:
    """A csv, parquet or feather file."""

    labels_apart = False
    label_lines = LabelLines()

    def __init__(self, source: SourceFile, form: str) -> None:
        self._path, self._name, self._form = source.path, source.name, form
        self._dialect = dialect_of(source.start) if form == "csv" else {}
        self.separator = self._dialect.get("separator")
        """What separates the fields of csv; None for other files."""
        self._commas = self._dialect.get("decimal_comma", False)
        try:
            with _without_panics():
                if form == "csv":
                    start = self._start().head(HEAD)
                else:
                    start = self._scan().head(HEAD).collect()
                self._schema, self.columns = start.schema, start.columns
                self.rows = int(self._scan().select(pl.len()).collect().item())
            if self.rows == 0:
                raise InvalidRecording(f"{self._name}: no rows, only the header")
            for name in self.columns:
                base, duplicated, _ = name.rpartition("_duplicated_")  # the name that polars gives
                if form == "csv" and duplicated and base in self.columns:
                    raise InvalidRecording(f"{self._name}: two columns have the header {base!r}")
            self.head = start.rows(named=True)
            if self._commas:
                self.head = [
                    {name: with_point(cell) for name, cell in row.items()} for row in self.head
                ]
            self.first = self.head[0]
        except (*DAMAGED, OSError) as error:
            reason = _reason(error)
            raise InvalidRecording(f"{self._name}: not a readable {form} file: {reason}") from None

    def _start(self) -> pl.DataFrame:
        """The first rows of a csv file, each column of the type that they have."""
        options: dict[str, Any] = {"n_rows": JUDGED, **self._dialect}
        try:
            return pl.read_csv(
                self._path, try_parse_dates=True, infer_schema_length=JUDGED, **options
            )
        except pl.exceptions.ComputeError:  # it parses more rows, which may be of other types
            start = pl.read_csv(self._path, infer_schema=False, **options)
            numbers = start.select(pl.all().cast(pl.Float64, strict=False))
            return start.with_columns(
                column
                for column in numbers
                if column.null_count() == start[column.name].null_count()
            )

    def _scan(self, types: Mapping[str, Any] | None = None) -> pl.LazyFrame:
        """The file; of csv with these types of columns, and the others as text."""
        if self._form == "parquet":
            return pl.scan_parquet(self._path)
        if self._form == "feather":
            return pl.scan_ipc(self._path)
        return pl.scan_csv(
            self._path,
            schema_overrides=types,
            infer_schema=False,
            **self._dialect,
        )

    def cell(self, name: str) -> Any:
        if "," in name and name not in self.first:
            return {part.rpartition(".")[2]: self.cell(part) for part in name.split(",")}
        value: Any = self.first
        for part in [name] if name in self.first else name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def extra(self, name: str) -> NDArray[Any] | None:
        return None

    def _column(self, name: str) -> pl.Expr:
        if name in self.first:
            return pl.col(name)
        if "," in name:  # names and numbers, see `with_names_beside`
            parts = [self._column(part).alias(part.rpartition(".")[2]) for part in name.split(",")]
            return pl.struct(parts).alias(name)
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
        schema = self._schema
        fractions = {name for name in segments if name in schema and schema[name].is_float()}
        types: dict[str, Any] = {name: schema[name] for name in times if name in schema}
        types |= dict.fromkeys([label, *segments], pl.String)
        if len(probs) > 1 or (probs[0] in schema and schema[probs[0]].is_numeric()):
            types |= dict.fromkeys((name for name in probs if not self._is_text(name)), pl.Float64)
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
                        [number_or_text(cell) for cell in part[name]]
                        if name in fractions
                        else part[name].to_list()
                        for name in segments
                    ],
                )
                first += len(part)
        except DAMAGED as error:
            raise InvalidRecording(f"{self._name}: {self._damage(error, first)}") from None

    def _damage(self, error: BaseException, first: int) -> str:
        """Where a file cannot be read, and why."""
        cell = UNLIKE.match(str(error))
        if cell is None or self._form != "csv":
            return f"after row {first}: {_reason(error)}"
        value, kind, name = cell[1].strip('"'), cell[2], cell[3]
        texts = pl.scan_csv(self._path, infer_schema=False, **self._dialect).with_row_index(ROW)
        rows = texts.filter(pl.col(name) == value).select(ROW).head(1).collect()
        where = f"row {rows.item() + 1}" if len(rows) else f"after row {first}"
        wanted = "a number" if kind[0] in "fiu" else "one like those before it"
        return f"{where}: column {name!r} holds {value!r}, expected {wanted}"

    def _probs(
        self, part: pl.DataFrame, probs: list[str], first: int
    ) -> NDArray[np.float64] | list[Any]:
        if len(probs) == 1:
            return cells_of(part[probs[0]])
        for name in probs:
            if (kind := part[name].dtype).is_nested():
                raise InvalidRecording(
                    f"{self._name}: column {name!r} holds {kind}, expected numbers"
                )
        read = [numbers_of(part[name], commas=self._commas) for name in probs]
        for name, numbers in zip(probs, read, strict=True):
            odd = numbers.is_null() & part[name].is_not_null()
            if odd.any() and (row := odd.arg_max()) is not None:
                raise InvalidRecording(
                    f"{self._name}: row {first + row + 1}: column {name!r} is"
                    f" {part[name][row]!r}, expected a number"
                )
        return np.ascontiguousarray(pl.DataFrame(read).to_numpy(), np.float64)

    def _is_text(self, name: str) -> bool:
        """Whether the first rows of a column are text, as are percentages."""
        return self._schema.get(name) == pl.String

    def _times(self, column: pl.Series, first: int) -> Times:
        if column.dtype.is_temporal() and column.dtype != pl.Time:
            moments = column.cast(pl.Datetime("us")).cast(pl.Int64)
            return Times(moments.fill_null(0).to_numpy(), column.is_null().to_numpy(), DATES)
        if column.dtype.is_numeric():
            values = column.fill_null(0).to_numpy()
            missing = column.is_null().to_numpy()
            return Times(values, missing | np.isnan(values), "")
        return times_of(self._name, column.name, column.to_list(), first)


def _reason(error: BaseException) -> str:
    """What polars says of a file, without its options, which nobody can set here."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "more fields than defined" in reason:
        return "a line has more fields than the header"
    return re.sub(r";? *(try |consider |you might want to ).*", "", reason, flags=re.IGNORECASE)
