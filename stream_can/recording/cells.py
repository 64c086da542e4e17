"""Convert cells of a table to rows of probabilities and to times."""

from __future__ import annotations

import ast
import json
import math
import re
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.messages.forms import BadMessage, Forms, LabelScore, Probs
from stream_can.recording.table import DATES, InvalidRecording, Times

__all__ = ["classes_of", "parsed", "probs_of", "rows_of", "times_of"]


def parsed(cell: Any) -> Any:
    """Parse a text cell: JSON, or as Python or numpy print lists and dicts."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if not text.startswith(("[", "{")):
        return cell
    spaced = re.sub(r"(?<=[\d.])\s+(?=[-\d.])", ", ", text)  # numpy prints [0.2 0.8]
    for read in (json.loads, ast.literal_eval):
        for form in (text, spaced):
            try:
                return read(form)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                pass
    return cell


def classes_of(cell: Any) -> list[Any] | range | None:
    """Classes named by probabilities, or their range; None where the cell has none."""
    cell = parsed(cell)
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, int | float):
        return range(2)
    if isinstance(cell, dict):
        return list(cell)
    if not isinstance(cell, list) or not cell:
        return None
    if all(isinstance(entry, dict) and "label" in entry for entry in cell):
        return [entry["label"] for entry in cell]
    return range(len(cell))


def rows_of(cells: list[Any], forms: Forms, name: str, first: int) -> NDArray[np.float64]:
    """Convert cells in any form to rows, shape (n, m); an entry None becomes nan."""
    rows = []
    for i, cell in enumerate(cells):
        try:
            rows.append(forms.read(probs_of(cell))[0])
        except (BadMessage, msgspec.ValidationError) as error:
            raise InvalidRecording(f"{name}: row {first + i + 1}: {error}") from None
        except StreamCANError as error:
            raise InvalidRecording(
                f"{name}: row {first + i + 1}: {error}; `classes` names them all"
            ) from None
    return np.array(rows, np.float64)


def probs_of(cell: Any) -> Probs:
    """Convert a cell, possibly text, to probabilities in any form; BadMessage where it has none."""
    cell = parsed(cell)
    if isinstance(cell, dict):
        return {str(name): _number(p) for name, p in cell.items() if p is not None}
    if not isinstance(cell, list):
        return _number(cell)
    if cell and isinstance(cell[0], dict):
        return msgspec.convert(cell, list[LabelScore])
    return [_number(p) for p in cell]


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadMessage(f"{value!r} is not a number")
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
