"""Convert cells of a table to rows of probabilities and to times."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.messages.faults import is_number, probs_fault
from stream_can.messages.platforms import plain_row
from stream_can.messages.probability_formats import BadMessage, Forms, LabelScore, Probs
from stream_can.method.class_names import MOST_SHOWN
from stream_can.recording.python_text import looks_printed, read_printed
from stream_can.recording.table import DATES, InvalidRecording, Times


def parsed(cell: Any) -> Any:
    """Parse a text cell: JSON, or as Python, numpy, torch or Spark print one."""
    if not isinstance(cell, str) or not looks_printed(text := cell.strip()):
        return cell
    for read in (json.loads, read_printed):
        try:
            return read(text)
        except (ValueError, RecursionError):
            pass
    return cell


def in_ordinary_form(cell: Any) -> Any:
    """A cell whose row may be written as a platform does, in an ordinary form; others unchanged."""
    cell = parsed(cell)
    row = plain_row(cell)
    return cell if row is None else row.probs


def classes_of(row: Any) -> list[Any] | range | None:
    """Classes named by probabilities in an ordinary form, or their range; None where it is none."""
    if isinstance(row, bool) or row is None:
        return None
    if isinstance(row, int | float):
        return range(2)
    if isinstance(row, dict):
        return list(row)
    if not isinstance(row, list) or not row:
        return None
    if all(isinstance(entry, dict) and "label" in entry for entry in row):
        return [entry["label"] for entry in row]
    return range(len(row))


def rows_of(cells: list[Any], forms: Forms, name: str, first: int) -> NDArray[np.float64]:
    """Convert cells in any form to rows, shape (n, m); an entry None becomes nan."""
    rows = []
    for i, cell in enumerate(cells):
        try:
            rows.append(forms.parse(probs_of(cell))[0])
        except BadMessage as error:
            raise InvalidRecording(f"{name}: row {first + i + 1}: {error}") from None
        except StreamCANError as error:
            raise InvalidRecording(
                f"{name}: row {first + i + 1}: {error}; `classes` names them all"
            ) from None
    return np.array(rows, np.float64)


def probs_of(cell: Any) -> Probs:
    """Convert a cell, possibly text, to probabilities in any form; BadMessage where it has none."""
    cell = parsed(cell)
    try:
        return _ordinary(cell)
    except BadMessage:
        row = plain_row(cell)
        if row is None:
            if isinstance(cell, dict):
                probs = {name: p for name, p in cell.items() if p is not None}
                raise BadMessage(probs_fault(probs)) from None
            raise
        return _ordinary(row.probs)


def _ordinary(cell: Any) -> Probs:
    if isinstance(cell, dict):
        return {str(name): _number(p) for name, p in cell.items() if p is not None}
    if not isinstance(cell, list):
        return _number(cell)
    if cell and isinstance(cell[0], dict):
        try:
            return msgspec.convert(cell, list[LabelScore])
        except msgspec.ValidationError:
            raise BadMessage(probs_fault(cell)) from None
    return [_number(p) for p in cell]


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        shown = repr(value)[:MOST_SHOWN]
        raise BadMessage(f"{shown} is not a number; in csv a row is written by json.dumps(row)")
    return float(value)


def times_of(source: str, name: str, values: list[Any], first: int) -> Times:
    """Convert numbers, or dates as ISO 8601 text; None is missing."""
    missing = np.array([value is None for value in values], np.bool_)
    numbers: list[float] = []
    unit = ""
    for i, value in enumerate(values):
        try:
            if isinstance(value, str):
                numbers.append(_microseconds(value))
                unit = DATES
            else:
                numbers.append(0 if value is None else value + 0)
        except (ValueError, TypeError):
            raise InvalidRecording(
                f"{source}: row {first + i + 1}: {name} is {value!r}, "
                "expected a number or an ISO 8601 date"
            ) from None
    return Times(np.array(numbers), missing, unit)


def _microseconds(text: str) -> int:
    date = datetime.fromisoformat(text)
    utc = date.replace(tzinfo=None) - (date.utcoffset() or date - date) - datetime(1970, 1, 1)
    return (utc.days * 86400 + utc.seconds) * 1_000_000 + utc.microseconds


def numbers_in(cell: Any) -> list[float]:
    """Numbers of a cell that may be a whole row; empty for anything else."""
    cell = in_ordinary_form(cell)
    if isinstance(cell, dict):
        cell = list(cell.values())
    elif is_best_alone(cell):
        return []
    elif isinstance(cell, list) and all(isinstance(entry, dict) for entry in cell):
        cell = [entry.get("score") for entry in cell]
    if not isinstance(cell, list) or len(cell) < 2:
        return []
    return cell if all(is_number(number) for number in cell) else []


def is_best_alone(cell: Any) -> bool:
    return (
        isinstance(cell, list)
        and len(cell) == 1
        and isinstance(cell[0], dict)
        and {"label", "score"} <= cell[0].keys()
        and cell[0]["score"] != 1
    )


def field(row: dict[str, Any], name: str) -> Any:
    """Value of a field or of a nested one (``model.probs``); None where missing."""
    if name in row:
        return row[name]
    if "," in name:  # names and numbers, see `with_names_beside`
        cells = {part.rpartition(".")[2]: field(row, part) for part in name.split(",")}
        return cells if any(cell is not None for cell in cells.values()) else None
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
