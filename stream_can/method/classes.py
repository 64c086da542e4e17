"""Names of classes, and the column of a label in any notation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np

from stream_can.errors import UnknownClass

__all__ = [
    "ClassIndex", "class_name", "class_names", "json_name", "preview", "trailing_numbers",
]  # fmt: skip

ClassName = str | int | float | bool
"""Types of a class's name."""

MOST_CLASSES = 2**24
"""More is a mistake, and would only fail when memory is exhausted."""

_NUMBERED = re.compile(r"(.*?)(\d{1,9})", re.DOTALL)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")

MOST_SHOWN = 80
"""Characters of a name in a message."""


class ClassIndex(dict[Any, int]):
    """Maps labels to columns: ``index[label]``.

    Parameters
    ----------
    names
        The classes in column order.
    written
        Notation of labels. "exact": the class itself. "json": as in JSON; the class 1 is also "1"
        and 1.0, True is "true". "file": also as file formats change it, "1.0" or "True"; a column
        number where no class is named by a number; and -1 is a missing label. In both, of classes
        named LABEL_0, LABEL_1, ... the number alone.

    Raises
    ------
    ValueError
        Two classes have the same notation.
    UnknownClass
        ``index[label]`` is not one of the classes.
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
        # "1" and "1.0" as two classes: a number is ambiguous, only the text decides.
        self._numbers = {x: self[key] for key, x in numbers.items() if often[x] == 1}
        if not numbers and (ends := trailing_numbers(keys)) is not None:
            self._numbers = {float(end): k for k, end in enumerate(ends)}
        self.by_position = written == "file" and not self._numbers
        """Whether integers are positions: no class is named by a number."""

    @cached_property
    def is_range(self) -> bool:
        """Whether the classes are the numbers of their columns."""
        return self._names == tuple(range(len(self))) and all(type(n) is int for n in self._names)

    def __missing__(self, label: Any) -> int:
        column = None if self._written == "exact" else self._other(label)
        if column is None:
            raise UnknownClass(self._unknown(label))
        return column

    def _unknown(self, label: Any) -> str:
        return f"{_shown(label)} is none of the {len(self._names)} classes: {preview(self._names)}"

    def column(self, label: Any) -> int:
        """The column of a label of any type; an unhashable label is unknown."""
        try:
            return self[label]
        except TypeError:
            raise UnknownClass(self._unknown(label)) from None

    def _other(self, label: Any) -> int | None:
        """The column of a label that is not written like its class."""
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
        if column is None and self.by_position and 0 <= label < len(self) and label == int(label):
            return int(label)
        return column


def trailing_numbers(names: Sequence[str]) -> list[int] | None:
    """The numbers at the ends of names that differ in these alone, as LABEL_0, LABEL_1; None for
    other names."""
    found = [_NUMBERED.fullmatch(name) for name in names]
    parts = [match for match in found if match is not None]
    if len(parts) < len(names) or len({match[1] for match in parts}) > 1:
        return None
    numbers = [int(match[2]) for match in parts]
    return numbers if len({*numbers}) == len(numbers) else None


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
    names = tuple(map(class_name, classes))
    if not names:
        raise ValueError("classes: expected at least 1, got none")
    return names


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
