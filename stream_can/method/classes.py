"""The names of the classes, and which column a label means, however it is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from stream_can.errors import UnknownClass

__all__ = ["ClassIndex", "class_names", "json_name", "preview"]

ClassName = str | int | float | bool
"""What a class may be called."""

MOST_CLASSES = 2**24
"""More than that is a mistake, and would only fail once memory is used up."""

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


class ClassIndex(dict[Any, int]):
    """The column of a label: ``index[label]``.

    Parameters
    ----------
    names
        The classes in the order of the columns.
    written
        How a label may be written. "exact": as the class itself. "json": as JSON has it; the class
        1 is also "1" and 1.0, True is "true". "file": also as the formats of files change it, "1.0"
        or "True"; by the number of its column where no class is named by a number; and a missing
        label is -1.

    Raises
    ------
    ValueError
        Where two classes are written the same.
    UnknownClass
        ``index[label]``, where it is none of the classes.
    """

    def __init__(
        self, names: Sequence[Any], written: Literal["exact", "json", "file"] = "exact"
    ) -> None:
        self._names, self._written = names, written
        keys = names if written == "exact" else [json_name(name) for name in names]
        super().__init__({key: i for i, key in enumerate(keys)})
        if len(self) < len(names):
            twice = next(key for i, key in enumerate(keys) if self[key] != i)
            raise ValueError(
                f"classes: {twice!r} is named twice"
                if written == "exact"
                else f"classes: two are {twice!r} in JSON"
            )
        if written == "exact":
            return
        numbers = {key: float(key) for key in keys if _NUMBER.fullmatch(key)}
        often = Counter(numbers.values())
        # "1" and "1.0" as two classes: no number tells which one is meant, the text must.
        self._numbers = {x: self[key] for key, x in numbers.items() if often[x] == 1}
        self._by_column = written == "file" and not numbers

    def __missing__(self, label: Any) -> int:
        column = None if self._written == "exact" else self._other(label)
        if column is None:
            raise UnknownClass(self._unknown(label))
        return column

    def _unknown(self, label: Any) -> str:
        return f"{label!r} is none of the {len(self._names)} classes: {preview(self._names)}"

    def column(self, label: Any) -> int:
        """The same for a label of any type: one that cannot be a key is no class either."""
        try:
            return self[label]
        except TypeError:
            raise UnknownClass(self._unknown(label)) from None

    def _other(self, label: Any) -> int | None:
        """The column of a label that is no class's own text."""
        in_file = self._written == "file"
        if in_file and (label is None or label != label):
            return -1
        if isinstance(label, bool):
            return self.get(json_name(label), self.get(str(label)) if in_file else None)
        if isinstance(label, str):
            if not in_file:
                return None
            if label in ("True", "False"):
                return self.get(label.lower())
            try:
                label = float(label)
            except ValueError:
                return None
        elif not isinstance(label, int | float):
            return None
        column = self._numbers.get(label, self.get(json_name(label)))
        if column is None and self._by_column and 0 <= label < len(self) and label == int(label):
            return int(label)
        return column


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
    if isinstance(classes, set | frozenset) or np.ma.isMaskedArray(classes):
        raise ValueError(
            f"classes: a {type(classes).__name__}, expected a list in order of columns"
        )
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
    if not names:
        raise ValueError("classes: expected at least 1, got none")
    for name in names:
        if not isinstance(name, (str, int, float)) or name != name:
            raise ValueError(
                f"classes: {name!r} is {type(name).__name__}, expected str, int, float or bool"
            )
    return names


def preview(names: Sequence[Any], most: int = 8) -> str:
    """The first names of a long list, for a message."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def json_name(name: Any) -> str:
    """A class as the key of a JSON object: 3 -> "3", True -> "true"."""
    return name if isinstance(name, str) else msgspec.json.encode(name).decode()
