"""Tables without a row of all classes on each line, and the command that makes one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from stream_can.messages.faults import is_number
from stream_can.recording.evidence import near_total
from stream_can.recording.table import Table

MOST_COLUMNS = 30
"""Columns among which those of a long table are looked for."""
READERS = {".parquet": "read_parquet", ".jsonl": "read_ndjson", ".ndjson": "read_ndjson"}


class RowsInside(NamedTuple):
    """Several rows in one value."""

    place: str
    """Where they are, for jq."""
    n: int
    of_tensor: bool


def several_rows(cell: Any, field: str, label: str) -> str:
    """What a cell with several rows is, and the command that gives each a line; empty for others.

    Parameters
    ----------
    field, label
        Fields of the cell and of the labels.
    """
    rows = _rows_in(cell, "." + "".join(map(_part, field.split("."))).removeprefix("."))
    if rows is None:
        return ""
    row = "$rows[$k]"
    if rows.of_tensor:
        row = "($rows.data | flatten)[$k * $rows.shape[1]:($k + 1) * $rows.shape[1]]"
    n = "$rows.shape[0]" if rows.of_tensor else "$rows | length"
    truth = f"$line{''.join(map(_part, label.split('.')))}[$k]"
    program = f". as $line | {rows.place} as $rows | range({n}) as $k"
    program += f" | {{probs: {row}, label: {truth}}}"
    return f"{rows.n} rows on a line; a line each: jq -c '{program}' FILE > rows.jsonl"


def _part(name: str) -> str:
    return f".{name}" if re.fullmatch(r"[A-Za-z_]\w*", name) else f"[{json.dumps(name)}]"


def _rows_in(value: Any, place: str) -> RowsInside | None:
    if isinstance(value, dict):
        shape = value.get("shape")
        if isinstance(shape, list) and isinstance(value.get("data"), list):
            many = len(shape) == 2 and all(isinstance(n, int) and n > 1 for n in shape)
            return RowsInside(place, shape[0], True) if many else None
        inside = [(_part(str(key)), cell) for key, cell in value.items()]
    elif isinstance(value, list):
        if len(value) > 1 and all(_are_numbers(row) for row in value):
            return RowsInside(place, len(value), False) if len({*map(len, value)}) == 1 else None
        inside = [(f"[{k}]", cell) for k, cell in enumerate(value[:10])]
    else:
        return None
    inner_rows = [rows for part, cell in inside if (rows := _rows_in(cell, place + part))]
    return inner_rows[0] if len(inner_rows) == 1 else None


def _are_numbers(row: Any) -> bool:
    return isinstance(row, list) and len(row) > 1 and all(is_number(number) for number in row)


def long_form(name: str, table: Table) -> str:
    """That a table has a row for each class of a prediction, and the command that pivots it; empty
    for others."""
    columns = table.columns[:MOST_COLUMNS]
    for key in columns:
        runs = [[*rows] for _, rows in groupby(table.head, key=lambda row: str(row.get(key)))]
        groups = runs[:-1] if len(runs) > 1 else runs
        m = len(groups[0])
        if m < 2 or any(len(group) != m for group in groups):
            continue
        probs = [column for column in columns if all(_sums(group, column) for group in groups)]
        names = [column for column in columns if column not in probs and _name(groups, column)]
        if len(probs) != 1 or not names:
            continue
        index = [
            column
            for column in columns
            if all(len({str(row.get(column)) for row in group}) == 1 for group in groups)
        ]
        ending = name[name.rfind(".") :].lower()
        return (
            f"A row for each class (column {names[0]!r})? One for each prediction: python -c"
            f' "import polars as pl; pl.{READERS.get(ending, "read_csv")}({name!r})'
            f".pivot({names[0]!r}, index={index}, values={probs[0]!r}).write_csv('rows.csv')\""
        )
    return ""


def _sums(group: Sequence[dict[str, Any]], column: str) -> bool:
    """Whether a column's numbers are probabilities that sum to 1."""
    cells = [row.get(column) for row in group]
    numbers = [float(cell) for cell in cells if cell is not None and is_number(cell)]
    return (
        len(numbers) == len(cells)
        and min(numbers) >= 0
        and bool(near_total(sum(numbers), 1.0, len(numbers)))
    )


def _name(groups: Sequence[Sequence[dict[str, Any]]], column: str) -> bool:
    """Whether a column has the same values in each group, each once."""
    values = [sorted(str(row.get(column)) for row in group) for group in groups]
    return len({*values[0]}) == len(values[0]) and all(value == values[0] for value in values)


def pandas_form(name: str, value: Any) -> str:
    """That a JSON value is a table as pandas writes it in one piece, or a row of one without names,
    and the command that writes it by rows; empty for others."""
    orient, names = None, ""
    if isinstance(value, list):
        scalars = all(cell is None or isinstance(cell, str | int | float) for cell in value)
        texts = [isinstance(cell, str) for cell in value]
        if scalars and any(texts) and sum(map(is_number, value)) > 1:
            orient = "values"
            axis = ["label" if text else "CLASS" for text in texts]
            names = f".set_axis({axis}, axis=1)"
    elif isinstance(value, dict):
        cells = [*value.values()]
        if value.keys() == {"columns", "index", "data"}:
            orient = "split"
        elif value.keys() == {"schema", "data"}:
            orient = "table"
        elif (
            len(cells) > 1
            and all(isinstance(cell, dict) and cell.keys() == cells[0].keys() for cell in cells)
            and cells[0]
        ):
            orient = "columns" if "0" in cells[0] else "index" if "0" in value else None
    if orient is None:
        return ""
    return (
        f"a table as pandas writes it with orient={orient!r}; by rows: python -c"
        f' "import pandas as pd; pd.read_json({name!r}, orient={orient!r}){names}'
        ".to_json('rows.jsonl', orient='records', lines=True)\""
    )
