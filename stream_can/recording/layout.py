"""Find the probabilities in a table, and their classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stream_can.messages.faults import BEST_ALONE, is_number, probs_fault
from stream_can.messages.platforms import names_beside
from stream_can.method.class_names import MOST_SHOWN
from stream_can.method.rows import Normalise
from stream_can.recording.cells import classes_of, in_ordinary_form, is_best_alone, numbers_in
from stream_can.recording.column_hints import BEST, no_column, probs_hint
from stream_can.recording.evidence import (
    SEPARATORS,
    ColumnGroup,
    around,
    as_labels,
    best_group,
    in_order,
    near_total,
)
from stream_can.recording.names import in_order_of, other_classes
from stream_can.recording.other_forms import several_rows
from stream_can.recording.table import InvalidRecording, Table


class Layout(NamedTuple):
    """A single column of cells, or one column per class."""

    columns: list[str]
    cells: bool
    """Whether the single column holds whole rows."""
    classes: list[Any]


def find_layout(
    name: str,
    table: Table,
    probs: str,
    classes: Sequence[Any] | None,
    other_columns: Sequence[str],
    normalise: Normalise = "rounded",
) -> Layout:
    """Find the probabilities: the first of these that fits.

    1. One column ``probs``, or a nested field, whose cells hold whole rows.
    2. Columns that begin with ``probs``, one per class; or that match the pattern.
    3. Columns named like the classes, where these are given.
    4. For the default name only: columns whose numbers in nearly all of the first rows sum to 1; or
       to 100, where all rows are divided by their sum. See `best_group`. Classes that are given
       must be theirs.

    Parameters
    ----------
    name
        Name of the file.
    probs
        A column, a nested field, a prefix of columns, or a pattern ``before*after``.
    classes
        Names of the classes, where the user or the file gives them.
    other_columns
        Columns with another meaning, the labels' first.
    """
    cell = table.cell(probs)
    if cell is not None:
        row = in_ordinary_form(cell)
        row_classes = classes_of(row)
        if row_classes is not None and is_best_alone(row):
            raise InvalidRecording(f"{name}: {probs!r}: {BEST}")
        if advice := several_rows(row, probs, other_columns[0]):
            raise InvalidRecording(f"{name}: {probs!r}: {advice}")
        if isinstance(row, dict) and probs_fault(row) == BEST_ALONE:
            raise InvalidRecording(f"{name}: {probs!r}: {BEST}")
        if row_classes is None:
            raise InvalidRecording(
                f"{name}: column {probs!r} holds neither lists nor objects, but {_shown(cell)}; "
                "name the beginning of the class columns or the column of lists"
            )
        known = list(_sorted(row_classes, row) if classes is None else classes)
        if isinstance(row_classes, range) and len(row_classes) != len(known):
            raise _count(name, len(row_classes), known)
        return Layout([probs], True, known)
    free = [column for column in table.columns if column not in other_columns]
    prefix, star, suffix = probs.partition("*")
    columns = [
        column
        for column in free
        if column.startswith(prefix)
        and column.endswith(suffix)
        and (
            len(column) > len(prefix) + len(suffix)
            if star
            else _is_class(column.removeprefix(prefix), prefix)
        )
    ]
    if columns:
        inner = [column.removesuffix(suffix) for column in columns]
        names = _class_names(inner, prefix)
        if classes is None:
            names = as_labels(names, table.head, other_columns[0])
        named = dict(zip(names, columns, strict=True))
        if classes is None:
            return _by_number(columns, list(named))
        if len(classes) != len(columns):
            raise _count(name, len(columns), classes)
        if (found := in_order_of(classes, named)) is not None:  # the file's may be another
            columns = found
        elif not all(text[-1:].isdigit() for text in named):  # numbered ones stand for any
            raise other_classes(name, [*named], classes)
        return Layout(columns, False, list(classes))
    if classes is not None and all(str(c) in free for c in classes):
        return Layout([str(c) for c in classes], False, list(classes))
    if probs == "probs":
        for total in (1.0, 100.0) if normalise == "always" else (1.0,):
            group = best_group(table.head, free, other_columns[0], total)
            if isinstance(group, list):
                ways = [
                    f"{', '.join(candidate.columns[:4])} (--probs {_pattern(candidate)!r})"
                    for candidate in group
                ]
                raise InvalidRecording(
                    f"{name}: the probabilities could be {' or '.join(ways[:3])}; which are they?"
                )
            if group is None:
                continue
            if classes is None:
                return _by_number(group.columns, group.names)
            by_name = dict(zip(group.names, group.columns, strict=True))
            if (found := in_order_of(classes, by_name)) is None:
                raise other_classes(name, group.names, classes)
            return Layout(found, False, [*classes])
    error = str(no_column(name, table, "probs", probs))
    raise InvalidRecording(f"{error}. {probs_hint(name, table, free, other_columns[0])}")


def _by_number(columns: Sequence[str], names: Sequence[str]) -> Layout:
    """Columns of one class each, in the order of the numbers of their classes."""
    order = in_order(names)
    return Layout([columns[k] for k in order], False, [names[k] for k in order])


def _sorted(classes: list[Any] | range, cell: Any) -> list[Any] | range:
    """Classes that a row names: a list of them is in the order of its scores, so that theirs is by
    their numbers, or as they are spelled; an object keeps its own but for numbers."""
    if isinstance(classes, range):
        return classes
    names = sorted(classes, key=str) if isinstance(cell, list) else classes
    return [names[k] for k in in_order(names)]


def _pattern(group: ColumnGroup) -> str:
    """The option that chooses a group."""
    prefix, suffix = around(group.columns)
    return f"{prefix}*{suffix}"


def column_of_rows(table: Table, other_columns: Sequence[str]) -> str | None:
    """The only column whose first cell is a whole row of probabilities; None where there is not
    exactly one.

    Such a cell is a list or object of numbers that sum to 1, or a list of {"label", "score"}.
    """
    columns = [
        column
        for column in table.columns
        if column not in other_columns
        and (numbers := numbers_in(table.first.get(column)))
        and min(numbers) >= 0
        and near_total(sum(numbers), 1.0, len(numbers))
    ]
    return columns[0] if len(columns) == 1 else None


def with_names_beside(table: Table, probs: str, other_columns: Sequence[str]) -> str:
    """``names,numbers``, two fields together, where an array of names stands beside one of numbers
    in the first row; of the values of Spark's vectors the vectors, which may be sparse; else
    ``probs`` as it is."""
    outer, _, inner = probs.rpartition(".")
    beside = table.cell(outer) if outer and probs not in table.first else table.first
    if not isinstance(beside, dict) or not isinstance(beside.get(inner), list):
        return probs
    if inner == "values" and {"type", "size", "indices"} <= beside.keys():
        return outer
    if len(beside[inner]) < 2 or not all(is_number(number) for number in beside[inner]):
        return probs
    free = {key: cell for key, cell in beside.items() if key == inner or key not in other_columns}
    names = names_beside(free, inner)
    return probs if names is None else f"{probs.removesuffix(inner)}{names},{probs}"


def _class_names(columns: list[str], prefix: str) -> list[str]:
    """Names after the prefix, without separators common to all."""
    rests = [column.removeprefix(prefix) for column in columns]
    while prefix and len(first := {rest[:1] for rest in rests}) == 1 and first <= {*SEPARATORS}:
        rests = [rest[1:] for rest in rests]
    return rests


def _is_class(rest: str, prefix: str) -> bool:
    """Whether the rest of a column's name is a class: probs_cat and probs1, but not probability."""
    return bool(rest) and (prefix[-1:] in SEPARATORS or rest[0] in SEPARATORS or rest[0].isdigit())


def _shown(cell: Any) -> str:
    """The beginning of a cell, for messages."""
    text = repr(cell)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _count(name: str, n: int, classes: Sequence[Any]) -> InvalidRecording:
    return InvalidRecording(
        f"{name}: {n} probabilities a row, but {len(classes)} classes: "
        f"{', '.join(map(str, classes[:8]))}"
    )


def may_hold(table: Table, name: str) -> bool:
    """Whether there is such a column or nested field, judging by the first row."""
    if name in table.columns:
        return True
    value: Any = table.first
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
        if not value:  # null, or an object without fields: later rows may have more
            return True
    return True


def in_other_case(table: Table, name: str) -> str:
    """The only column that is called so but for case, where none is called so exactly."""
    matches = [column for column in table.columns if column.casefold() == name.casefold()]
    return matches[0] if len(matches) == 1 and not may_hold(table, name) else name
