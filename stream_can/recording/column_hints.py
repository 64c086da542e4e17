"""What a file without the named column may hold, and the option or command that helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_can.messages.faults import BEST_ALONE, is_number, probs_fault
from stream_can.recording.cells import numbers_in, parsed
from stream_can.recording.evidence import INDEX, around, near_total, up_to_last_word
from stream_can.recording.other_forms import long_form, several_rows
from stream_can.recording.table import InvalidRecording, Table

BEST = f"the first row has {BEST_ALONE}"
LABELS = (
    "label", "labels", "target", "truth", "y", "y_true", "true", "actual", "class", "gold",
    "ground_truth",
)  # fmt: skip
"""Other common names of label columns."""


def probs_hint(name: str, table: Table, free: Sequence[str], label: str) -> str:
    """Suggest options, judging by the first rows."""
    if pivot := long_form(name, table):
        return pivot
    for column in free:
        if row := numbers_in(table.first.get(column)):
            return f"Column {column!r} holds {len(row)} numbers a row: --probs {column!r}?"
        cell = parsed(table.first.get(column))
        if advice := several_rows(cell, column, label):
            return f"Column {column!r} holds {advice}"
        if isinstance(cell, dict) and probs_fault(cell) == BEST_ALONE:
            return f"Column {column!r} has {BEST_ALONE}"
    if {"label", "score"} <= {*table.columns} and isinstance(table.first["label"], str):
        return BEST[0].upper() + BEST[1:]
    numbers = {c: table.first[c] for c in free if c not in INDEX and is_number(table.first[c])}
    if len(numbers) < 2:
        needed = "Of each row the probabilities of all classes are needed: a column for each class,"
        needed += " or one column of lists"
        for column, number in numbers.items():
            if 0 <= number <= 1:
                needed += f"; or --probs {column!r}, if that is the second of two classes"
        return needed
    first, total = ", ".join(numbers), sum(numbers.values())
    for prefix in dict.fromkeys(map(up_to_last_word, numbers)):
        group = [column for column in numbers if prefix and column.startswith(prefix)]
        sums_to_one = near_total(sum(numbers[column] for column in group), 1.0, len(group))
        if 1 < len(group) < len(numbers) and sums_to_one:
            return f"Columns {', '.join(group)} sum to 1: add --probs {prefix!r}"
    prefix, suffix = around(list(numbers))
    named = f" --probs '{prefix}*{suffix}'" if prefix or suffix else ""
    if min(numbers.values()) < 0:
        return f"Columns {first} are below 0 or above 1: logits? Add --logits" + (
            named or " --classes NAME,NAME,..."
        )
    if near_total(total, 100.0, len(numbers)):
        return f"Columns {first} sum to 100: percentages? Add{named} --normalise always"
    if near_total(total, 1.0, len(numbers)) and named:
        return f"Columns {first} sum to 1: add{named}"
    scores = [c for c in numbers if all(_is_probability(row.get(c)) for row in table.head)]
    outcomes = {str(row[label]) for row in table.head if row.get(label) is not None}
    if len(scores) == 1 and len(outcomes) == 2:
        score = scores[0]
        return f"Is {score} the probability of the second of two classes? Add --probs {score!r}"
    return f"Which of {first} are probabilities? --classes NAME,NAME,... or --probs 'before*behind'"


def no_column(name: str, table: Table, purpose: str, column: str) -> InvalidRecording:
    """The error that lists the columns."""
    columns = ", ".join(table.columns[:12]) + (", ..." if len(table.columns) > 12 else "")
    text = f"{name}: no column {column!r} for {purpose}; the file has {columns}"
    if len(table.columns) > 1 and _are_values(table.columns[:-1]):
        text += ". The first line holds numbers: a header is missing"
    elif purpose == "label" and (other := [c for c in table.columns if c.lower() in LABELS]):
        text += f". Add --label {other[0]}?"
    elif column in {c.strip() for c in table.columns}:
        text += ". There are blanks around names; without them: sed 's/ *, */,/g' FILE"
    elif inside := [c for c in table.columns if _holds(table.first.get(c), column)]:
        text += f". Add --{purpose.replace('_', '-')} {inside[0]}.{column}?"
    elif texts := [c for c in table.columns if _is_json_text(table.first.get(c))]:
        text += f". {texts[0]!r} holds JSON as text: jq -c '.{texts[0]} | fromjson' FILE"
    elif purpose == "label" and len(table.columns) == 1:
        text += ", and labels are needed beside them"
    return InvalidRecording(text)


def _is_probability(cell: Any) -> bool:
    return cell is None or (is_number(cell) and 0 <= cell <= 1)


def _holds(cell: Any, name: str) -> bool:
    return isinstance(cell, dict) and name in cell


def _is_json_text(cell: Any) -> bool:
    return isinstance(cell, str) and cell.startswith("{") and isinstance(parsed(cell), dict)


def _are_values(names: Sequence[str]) -> bool:
    """Whether names are numbers other than the classes 0, 1, 2, ..."""
    counted = any([*names] == [str(first + k) for k in range(len(names))] for first in (0, 1))
    return not counted and all(_reads_as_number(name) for name in names)


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
