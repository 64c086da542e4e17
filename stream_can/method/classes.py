"""The names of the classes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

ClassName = str | int | float | bool
"""What a class may be called."""

MOST_CLASSES = 2**24
"""More than that is a mistake, and would only fail once memory is used up."""


def class_names(classes: int | Iterable[Hashable]) -> tuple[Any, ...]:
    """The names of the classes, checked; 0..m-1 for an int."""
    if isinstance(classes, (int, np.integer)) and not isinstance(classes, bool):
        if not 1 <= classes <= MOST_CLASSES:
            raise ValueError(
                f"classes: {classes} classes, expected at least 1 and at most {MOST_CLASSES}"
            )
        return tuple(range(int(classes)))
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise ValueError(f"classes: expected names or their number, got {classes!r}")
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
    if not names:
        raise ValueError("classes: expected at least 1, got none")
    for name in names:
        if not isinstance(name, (str, int, float)) or name != name:
            raise ValueError(
                f"classes: {name!r} is {type(name).__name__}, expected str, int, float or bool"
            )
    return names


def check_distinct(names: Sequence[Any]) -> None:
    """Raise ValueError where two classes have one name; 1, 1.0 and True are one."""
    index = {name: i for i, name in enumerate(names)}
    if len(index) < len(names):
        twice = next(name for i, name in enumerate(names) if index[name] != i)
        raise ValueError(f"classes: {twice!r} is named twice")


def preview(names: Sequence[Any], most: int = 8) -> str:
    """The first names of a long list, for a message."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
