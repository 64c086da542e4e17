"""What a label that is no class may be, and the option or command that helps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from stream_can.recording.column_hints import LABELS
from stream_can.recording.evidence import around
from stream_can.recording.table import Table

UNKNOWN = (
    "?", "??", "-", "--", ".", "-1", "-1.0", "-99", "-999", "unknown", "unlabeled", "unlabelled",
    "undefined", "pending", "tbd",
)  # fmt: skip
"""Texts, without case, that people write for a label that nobody knows."""
MOST_LISTED = 20
"""Classes that an option lists; of more their sequence is told."""


def label_hint(
    label: Any,
    column: str,
    table: Table,
    classes: Sequence[Any],
    path: str,
    suffix: str,
    columns: Sequence[str] = (),
) -> str:
    """Advice about a label that is none of the classes; empty without any.

    Parameters
    ----------
    column
        The column or field of the labels.
    path, suffix
        Name of the file, and its ending.
    columns
        Columns of the probabilities.
    """
    text, m = str(label).strip(), len(classes)
    if isinstance(label, list) and label and all(isinstance(name, str) for name in label):
        beside = [
            name
            for name, cell in table.first.items()
            if name != column and name.lower() in LABELS and not isinstance(cell, list | dict)
        ]
        return f". The names of the classes? Add --label {beside[0]}?" if beside else ""
    labels = {str(row.get(column)).strip().removesuffix(".0") for row in table.head}
    if m == 2 and text.removesuffix(".0") == "-1" and labels <= {"-1", "1", "None"}:
        return ". The first of two classes? Add --classes=-1,1"
    if text.casefold() in UNKNOWN:
        command = _without(text, column, table, path, suffix)
        return f". Not known? Such a label is left empty, null or NA{command}"
    numbered = [str(name) for name in classes] == [str(k) for k in range(m)]
    if numbered and text.removesuffix(".0") == str(m):
        names = ",".join(str(k + 1) for k in range(m))
        return f". Counted from 1? Add --classes {names if m <= MOST_LISTED else _sequence(m)}"
    texts = sorted({cell.strip() for cell in _texts(table, column) if cell.strip()})
    if not isinstance(label, str) or not _are_numbered([str(name) for name in classes]):
        return ""
    order = "NAME,NAME,..."
    if len(texts) == m:
        order = f"{shlex.quote(','.join(texts))}, if that is their order (scikit-learn sorts)"
    pattern = shlex.quote("*".join(around(columns)))
    probs = f"--probs {pattern} " if len(columns) > 1 and pattern != "'*'" else ""
    return f". Which number is which? Add {probs}--classes {order}"


def _are_numbered(classes: Sequence[str]) -> bool:
    """Whether the names of classes are numbers from 0 or 1 on, perhaps behind the same word."""
    prefix = around(classes)[0].rstrip("0123456789")
    ends = {name.removeprefix(prefix) for name in classes}
    return any(ends == {str(first + k) for k in range(len(classes))} for first in (0, 1))


def _texts(table: Table, column: str) -> list[str]:
    return [cell for row in table.head if isinstance(cell := row.get(column), str)]


def _sequence(m: int) -> str:
    return f'"$(seq -s, 1 {m})"'


def _without(text: str, column: str, table: Table, path: str, suffix: str) -> str:
    """The command that writes a file without a label that nobody knows; empty for other files."""
    if not path.lower().endswith(suffix):  # packed, or of another format
        return ""
    file = shlex.quote(path)
    if suffix in (".jsonl", ".ndjson"):
        place = "." + "".join(f"[{json.dumps(part)}]" for part in column.split("."))
        program = f"if {place} | tostring == {json.dumps(text)} then {place} = null else . end"
        return f": jq -c {shlex.quote(program)} {file}"
    separator = getattr(table, "separator", None)
    if separator is None or column not in table.columns:
        return ""
    field = f"${1 + table.columns.index(column)}"
    program = f'{field} == {json.dumps(text)} {{ {field} = "" }} 1'
    separated = shlex.quote("\\t" if separator == "\t" else separator)
    return f": awk -F{separated} -v OFS={separated} {shlex.quote(program)} {file}"
