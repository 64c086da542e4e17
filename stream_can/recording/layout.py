"""Where in a table the probabilities are, and of which classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stream_can.method.rows import TOLERANCE
from stream_can.recording.cells import classes_of
from stream_can.recording.table import InvalidRecording, Table

__all__ = ["Layout", "find_layout", "may_hold", "no_column"]

SEPARATORS = "_./: -"


class Layout(NamedTuple):
    """One column of cells, or a column for each class."""

    columns: list[str]
    cells: bool
    """Whether the one column holds whole rows."""
    classes: list[Any]


def find_layout(
    name: str, table: Table, probs: str, classes: Sequence[Any] | None, others: Sequence[str]
) -> Layout:
    """Where the probabilities are: the first of these that fits.

    1. One column ``probs``, or a field inside of one, whose cells hold whole rows.
    2. Columns that begin with ``probs``, one for each class.
    3. Columns named by the classes, where these are given.
    4. For the default name alone: columns whose numbers in the first row sum to 1.

    Parameters
    ----------
    name
        What the file is called.
    probs
        A column, a field inside of one, what columns begin with, or a pattern ``prefix*``.
    classes
        The names of the classes, where the user or the file says them.
    others
        The columns that are something else.
    """
    cell = table.cell(probs)
    if cell is not None:
        found = classes_of(cell)
        if found is None:
            raise InvalidRecording(
                f"{name}: column {probs!r} holds neither lists nor objects; "
                "name the beginning of the class columns or the column of lists"
            )
        known = list(found if classes is None else classes)
        if isinstance(found, range) and len(found) != len(known):
            raise _count(name, len(found), known)
        return Layout([probs], True, known)
    free = [column for column in table.columns if column not in others]
    prefix = probs.removesuffix("*")
    columns = [
        column
        for column in free
        if column.startswith(prefix)
        and (probs.endswith("*") or _is_class(column.removeprefix(prefix), prefix))
    ]
    if columns:
        named = dict(zip(_class_names(columns, prefix), columns, strict=True))
        if classes is None:
            return Layout(columns, False, list(named))
        if len(classes) != len(columns):
            raise _count(name, len(columns), classes)
        if {str(c) for c in classes} == named.keys():  # in whatever order the file has them
            columns = [named[str(c)] for c in classes]
        return Layout(columns, False, list(classes))
    if classes is not None and all(str(c) in free for c in classes):
        return Layout([str(c) for c in classes], False, list(classes))
    if classes is None and probs == "probs" and (columns := _all_but(table, free)):
        return Layout(columns, False, columns)
    raise no_column(name, table, "probs", probs)


def _class_names(columns: list[str], prefix: str) -> list[str]:
    """The names after the prefix, without separators that follow it in every name."""
    rests = [column.removeprefix(prefix) for column in columns]
    while prefix and len(first := {rest[:1] for rest in rests}) == 1 and first <= {*SEPARATORS}:
        rests = [rest[1:] for rest in rests]
    return rests


def _is_class(rest: str, prefix: str) -> bool:
    """Whether the rest of a column's name is a class: probs_cat and probs1, but not probability."""
    return bool(rest) and (prefix[-1:] in SEPARATORS or rest[0] in SEPARATORS or rest[0].isdigit())


def _all_but(table: Table, free: list[str]) -> list[str]:
    """Columns named by their classes: those whose numbers of the first row sum to 1."""
    columns = [
        column
        for column in free
        if column not in ("", "index", "Unnamed: 0")
        and isinstance(p := table.first.get(column), int | float)
        and 0 <= p <= 1
    ]
    total = sum(table.first[column] for column in columns)
    near = max(TOLERANCE, 0.005 * len(columns))  # they may be rounded; every row is checked later
    return columns if len(columns) > 1 and abs(total - 1) <= near else []


def _count(name: str, found: int, classes: Sequence[Any]) -> InvalidRecording:
    return InvalidRecording(
        f"{name}: {found} probabilities a row, but {len(classes)} classes: "
        f"{', '.join(map(str, classes[:8]))}"
    )


def may_hold(table: Table, name: str) -> bool:
    """Whether there is such a column, or a field inside of one, as far as the first row says."""
    if name in table.columns:
        return True
    value: Any = table.first
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
        if not value:  # null, or an object without fields: a later row may have them
            return True
    return True


def no_column(name: str, table: Table, what: str, wanted: str) -> InvalidRecording:
    """The error that says which columns there are."""
    columns = ", ".join(table.columns[:12]) + (", ..." if len(table.columns) > 12 else "")
    return InvalidRecording(f"{name}: no column {wanted!r} for {what}; the file has {columns}")
