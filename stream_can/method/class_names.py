"""Class names: checked, so that a snapshot can store them, and shown in messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec
import numpy as np

ClassName = str | int | float | bool
"""Types of a class's name."""

MOST_CLASSES = 2**24
"""More is a mistake, and would only fail when memory is exhausted."""

MOST_SHOWN = 80
"""Characters of a name in a message."""


def class_names(classes: int | Iterable[Hashable]) -> tuple[Any, ...]:
    """Check names of classes; 0..m-1 for an int."""
    if isinstance(classes, (int, np.integer)) and not isinstance(classes, bool):
        if not 1 <= classes <= MOST_CLASSES:
            raise ValueError(
                f"classes: {classes} classes, expected at least 1 and at most {MOST_CLASSES}"
            )
        return tuple(range(int(classes)))
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise ValueError(f"classes: expected names or their number, got {classes!r}")
    if isinstance(classes, set | frozenset) or np.ma.isMaskedArray(classes):
        raise ValueError(
            f"classes: a {type(classes).__name__}, expected a list in order of columns"
        )
    if isinstance(classes, Mapping):
        classes = _by_column(classes)
    names = tuple(map(class_name, classes))
    if not names:
        raise ValueError("classes: expected at least 1, got none")
    return names


def _by_column(classes: Mapping[Any, Any]) -> list[Any]:
    """Names of {0: name, 1: name, ...}, as ``id2label`` of a model; its keys may be text."""
    by_text = {str(key): name for key, name in classes.items()}
    columns = [str(k) for k in range(len(classes))]
    if by_text.keys() != {*columns} or not all(isinstance(name, str) for name in classes.values()):
        raise ValueError(
            f"classes: a {type(classes).__name__}, expected a list in order of columns, or"
            " {0: name, 1: name, ...} as id2label of a model"
        )
    return [by_text[column] for column in columns]


def class_name(name: Any) -> ClassName:
    """Normalise a class name, so that saving does not change it.

    A numpy scalar, or a member of a str or int Enum, stands for its value.

    Raises
    ------
    ValueError
        A snapshot could not store it: another type (including subclasses of str, int or float), an
        int of more than 64 bits, half a surrogate pair, NaN.
    """
    if isinstance(name, np.generic):
        name = name.item()
    elif isinstance(name, Enum) and isinstance(name, str | int | float):
        name = name.value
    if type(name) is str:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"classes: {name!r} holds {name[error.start]!r}, half a surrogate pair, which "
                "cannot be saved as UTF-8; decode the name with the encoding that it was written in"
            ) from None
    elif type(name) is int:
        if not -(2**63) <= name < 2**64:
            raise ValueError(
                f"classes: {_shown(name)} is more than the 64 bits of an int that can be saved; "
                "name the class by its text: str(name)"
            )
    elif type(name) is float and name != name:
        raise ValueError(
            "classes: nan is equal to no label, expected str, int, float or bool that is"
        )
    elif type(name) not in (float, bool):
        base = next((base for base in (str, int, float) if isinstance(name, base)), None)
        raise ValueError(
            f"classes: {name!r} is {type(name).__name__}, expected str, int, float or bool"
            + ("" if base is None else f"; give the plain {base.__name__}")
        )
    return name  # type: ignore[no-any-return]


def _shown(name: Any) -> str:
    """A label for a message, not more than its beginning; Python formats no int of more than 4,300
    digits."""
    if isinstance(name, str | bytes) and len(name) > MOST_SHOWN:
        return f"{name[:MOST_SHOWN]!r}..."
    try:
        return repr(name)
    except ValueError:
        if isinstance(name, int):
            return f"an int of {name.bit_length():,} bits"
        return f"a {type(name).__name__} that cannot be shown"


def preview(names: Sequence[Any], most: int = 8) -> str:
    """The first names of a long list, for messages."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def json_name(name: Any) -> str:
    """A class as a key of a JSON object: 3 -> "3", True -> "true"."""
    return name if isinstance(name, str) else msgspec.json.encode(name).decode()
