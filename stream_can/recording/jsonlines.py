"""JSON lines, or an array of objects, as a table without a schema."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.messages.faults import UNREADABLE, json_fault, object_fault
from stream_can.messages.numbers import read_array
from stream_can.recording.cells import field, times_of
from stream_can.recording.joined_labels import JoinedLabels
from stream_can.recording.other_forms import pandas_form
from stream_can.recording.spool import SourceFile
from stream_can.recording.table import HEAD, Batch, InvalidRecording, LabelLines, Names, Times

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_any = msgspec.json.Decoder().decode
_decode_array = msgspec.json.Decoder(list[Any]).decode
Decode = Callable[[Any], dict[str, Any]]
make_type: Any = TypedDict  # called with fields known only at run time
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class JsonTable:
    """A JSON object per row; errors name the line.

    Labels may be on lines of their own: a line with a label and no probabilities labels the latest
    row before it with the same id. Ids and labels are then kept in memory.
    """

    def __init__(self, source: SourceFile, names: Names) -> None:
        self._path, self._name, self._names = source.path, source.name, names
        # The file is a single array, decoded at once.
        self._is_array = False
        self._is_array = self._is_one_array(source.start)
        self._decode: Decode = _decode
        if bytes(next(self._lines(), (0, b""))[1]).lstrip()[:1] == b"[":
            self._decode = self._array
        self._labels = JoinedLabels(self._name, names)
        rows = (row for row in self._objects() if not self._labels.is_label(row))
        self.head = list(islice(rows, HEAD))
        if not self.head:  # the labels are then beside probabilities under another name
            self.head = list(islice(self._objects(), HEAD))
        if not self.head:
            raise InvalidRecording(f"{self._name}: no rows")
        self.first = first = self.head[0]
        if len(self.head) == 1 and (table := pandas_form(self._name, first)):
            raise InvalidRecording(f"{self._name}: {table}")
        self.columns = list(first)
        self.labels_apart = False
        # If the first prediction has no label, labels may be on lines of their own.
        if field(first, names.label) is None:
            self.rows = self._labels.join(self._objects())
            self.labels_apart = bool(self._labels.by_row) or self._labels.lines.n > 0
        elif self._is_array:
            self.rows = sum(1 for _ in self._objects())
        else:
            with self._path.open("rb") as file:
                self.rows = sum(1 for line in file if not line.isspace())
        self.label_lines: LabelLines = self._labels.lines

    def _lines(self) -> Iterator[tuple[int, Any]]:
        with self._path.open("rb") as file:
            if not self._is_array:
                for number, line in enumerate(file, 1):
                    line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
                    if not line.isspace():
                        yield number, line
                return
            try:
                yield from enumerate(_split(file.read().removeprefix(BYTE_ORDER_MARK)), 1)
            except UNREADABLE:
                fault = json_fault(self._path.read_bytes())
                raise InvalidRecording(f"{self._name}: {fault}") from None

    def _is_one_array(self, start: bytes) -> bool:
        """Whether the file is one array of rows, rather than lines that are arrays."""
        if not start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"["):
            return False
        (_, first), *following = islice(self._lines(), 2)
        try:
            _decode_any(first)
        except UNREADABLE:
            return True
        return not following

    def _array(self, line: Any) -> dict[str, Any]:
        """A row given as an array, as transformers pipelines print it: only the probabilities."""
        cell = _decode_array(line)
        if table := pandas_form(self._name, cell):
            raise InvalidRecording(f"{self._name}: {table}")
        if len(cell) == 1 and isinstance(cell[0], list):
            (cell,) = cell
        return {self._names.probs: cell}

    def _objects(self, decode: Decode | None = None) -> Iterator[dict[str, Any]]:
        decode = decode or self._decode
        for number, line in self._lines():
            try:
                row = decode(line)
            except UNREADABLE:
                fault = f"{object_fault(bytes(line))}{_hint(bytes(line), number)}"
                raise InvalidRecording(
                    f"{self._name}: line {number}: not a JSON object: {fault}"
                ) from None
            yield row

    def cell(self, name: str) -> Any:
        return field(self.first, name)

    def extra(self, name: str) -> NDArray[Any] | None:
        return None

    def batches(
        self, probs: list[str], label: str, times: list[str], size: int, segments: list[str]
    ) -> Iterator[Batch]:
        """See `Table.batches`."""
        first, rows = 0, list[dict[str, Any]]()
        for row in self._objects(self._decoder(probs, [label, *times, *segments])):
            if self.labels_apart and self._labels.is_label(row):
                continue
            rows.append(row)
            if len(rows) == size:
                yield self._batch(rows, first, probs, label, times, segments)
                first, rows = first + size, []
        if rows:
            yield self._batch(rows, first, probs, label, times, segments)

    def _decoder(self, probs: list[str], needed: list[str]) -> Decode:
        """Create a decoder of lines that reads only what is needed.

        An array of numbers becomes an ``array``, without a Python object per number; other fields
        are skipped. A line that it cannot read goes to the plain decoder.
        """
        name = probs[0]
        cell = self.first.get(name)
        field_types = {
            part: Any for field_name in needed for part in (field_name, field_name.split(".")[0])
        }
        if self._decode != _decode or not isinstance(cell, list):
            return self._decode
        if len(probs) > 1 or name in field_types or self.labels_apart:
            return self._decode
        m = len(cell)
        line_type = make_type("line", {**field_types, name: msgspec.Raw}, total=False)
        decode: Decode = msgspec.json.Decoder(line_type).decode

        def read(line: Any) -> dict[str, Any]:
            try:
                row = decode(line)
                row[name] = read_array(row[name], m)
            except (*UNREADABLE, KeyError):
                return _decode(line)
            return _decode(line) if row[name] is None else row

        return read

    def _batch(
        self,
        rows: list[dict[str, Any]],
        first: int,
        probs: list[str],
        label: str,
        times: list[str],
        segments: list[str],
    ) -> Batch:
        """Build a batch from decoded lines: a matrix where all cells are lists of equal length.

        Where labels are on lines of their own, row numbers serve as times: of the row, and of the
        row before its label.
        """
        cells: Any
        if len(probs) == 1:
            cells = [field(row, probs[0]) for row in rows]
        else:
            cells = [[row.get(name) for name in probs] for row in rows]
        if all(type(cell) is array for cell in cells):
            cells = np.frombuffer(bytearray().join(cells)).reshape(len(rows), -1)
        else:
            cells = [cell.tolist() if type(cell) is array else cell for cell in cells]
        if type(cells[0]) is list:
            try:
                matrix = np.array(cells, np.float64)
                cells = matrix if matrix.ndim == 2 else cells
            except (ValueError, TypeError):
                pass  # the caller finds the fault, row by row
        segment_cells = [[field(row, name) for row in rows] for name in segments]
        if not self.labels_apart:
            columns = [
                times_of(self._name, name, [field(row, name) for row in rows], first)
                for name in times
            ]
            return Batch(cells, [field(row, label) for row in rows], columns, segment_cells)
        numbers = np.arange(first, first + len(rows))
        labels_of_rows = [
            (number, self._labels.by_row.get(number, [])) for number in numbers.tolist()
        ]
        first_labels = [labels[0] if labels else (None, 0) for _, labels in labels_of_rows]
        positions = np.array([position for _, position in first_labels])
        return Batch(
            cells,
            [label for label, _ in first_labels],
            [
                Times(numbers, np.zeros(len(rows), np.bool_), ""),
                Times(positions, positions == 0, ""),
            ],
            segment_cells,
            [(number, *label) for number, labels in labels_of_rows for label in labels[1:]],
        )


def _hint(line: bytes, number: int) -> str:
    """What a line that is no JSON may be, and how to make it one."""
    text = line.strip()
    if (number == 1 and text in (b"{", b"[{")) or text.endswith((b"{", b"[", b",")):
        return "; does an object stand on several lines? One a line: jq -c . FILE"
    return ""
