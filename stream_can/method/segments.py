"""Column values as given by users: which are equal, and which are invalid."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Texts = list[list[str | None] | None]
"""Texts of n rows by column, None where a row has no value; or None if no row has any."""


def column_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Check the names of declared columns."""
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise ValueError(f"segments: {columns!r}, expected a list of names")
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"segments: {name!r}, expected the name of a segment")
        if names.count(name) > 1:
            raise ValueError(f"segments: {name!r} is named twice")
        _encoded(name, "segments")
    return names


def text_of(value: Any) -> str | None:
    """Text of a column's value; None where not given.

    12, 12.0 and "12" are equal, True is "true"; None and NaN are no value.

    Raises
    ------
    ValueError
        For any other number, because measurements are not categories, and for any other type.
    """
    if type(value) is str:
        _encoded(value, "a value of a segment")
        return value
    if isinstance(value, np.generic):
        return text_of(value.item()) if not isinstance(value, np.datetime64) else _strange(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if value.is_integer():
            return str(int(value))
        raise ValueError(f"{value!r} is a measurement; a segment's value is a text or an integer")
    return str(value) if isinstance(value, str) else _strange(value)


def _strange(value: Any) -> str:
    raise ValueError(
        f"{type(value).__name__} {value!r}: a segment's value is a text, an integer or a boolean"
    )


def _encoded(text: str, subject: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{subject}: {text!r} is no Unicode text") from None


def texts_of(columns: Sequence[str], segments: Any, *, many: bool) -> Texts:
    """Texts of the column values of rows.

    Parameters
    ----------
    columns
        Names of the declared columns.
    segments
        {column: value} of one row; of many {column: values}, or a DataFrame that contains the
        columns.
    many
        Whether there are many rows.

    Raises
    ------
    ValueError
        A column is not declared, or a value is invalid; the message names row and column.
    """
    if not many and type(segments) is dict:  # the common case; errors are raised below
        row: Texts | None
        try:
            row = [[text_of(segments[name])] if name in segments else None for name in columns]
        except ValueError:
            row = None
        if row is not None and len(segments) == len(columns) - row.count(None):
            return row
    is_table = many and hasattr(segments, "columns")
    if not is_table and not isinstance(segments, Mapping):
        raise ValueError(
            f"segments: {type(segments).__name__}, expected {{segment: value}}"
            + (" or a DataFrame" if many else "")
        )
    names = list(segments.columns) if is_table else list(segments)
    if not is_table:
        for name in names:
            if name not in columns:
                known = ", ".join(columns) if columns else "none"
                raise ValueError(f"segments: {name!r} was not declared; declared: {known}")
    return [_texts(name, segments[name], many) if name in names else None for name in columns]


def given_texts(columns: Sequence[str], segments: Any, *, many: bool) -> dict[str, Any]:
    """The texts by column, for a corrector; without columns that are not given."""
    columns_texts = texts_of(columns, segments, many=many)
    return {
        name: texts if many else texts[0]
        for name, texts in zip(columns, columns_texts, strict=True)
        if texts
    }


def _texts(name: str, values: Any, many: bool) -> list[str | None] | None:
    """Texts of one column."""
    if not many:
        values = [values]
    elif values is None:
        return None
    elif isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ValueError(f"segments: {name!r}: expected a value for each row, got {values!r}")
    else:
        listed = getattr(values, "tolist", None) or getattr(values, "to_list", None)
        values = list(values) if listed is None else listed()
    if many and set(map(type, values)) <= {str, type(None)}:  # the common case, at once
        with contextlib.suppress(UnicodeEncodeError):
            "".join(filter(None, values)).encode()
            return values  # type: ignore[no-any-return]
    texts: list[str | None] = []
    for i, value in enumerate(values):
        try:
            texts.append(text_of(value))
        except ValueError as error:
            where = f" of row {i}" if many else ""
            raise ValueError(f"segments: {name!r}{where}: {error}") from None
    return texts
