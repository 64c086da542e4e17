"""Names of classes, and the column of a label in any notation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal

import numpy as np

from stream_can.errors import UnknownClass
from stream_can.method.class_names import MOST_SHOWN, _shown, json_name, preview

_NUMBERED = re.compile(r"(.*?)(\d{1,9})", re.DOTALL)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_PRINTED = re.compile(
    r"(?:\w+\.)?(?:tensor|array|u?int\d+|float\d+|str_)\((.*?)(?:, *(?:device|dtype)=[^,()]*)*\)"
)
"""A value as torch and numpy print one: tensor(0), np.int64(0)."""

MOST_COMPARED = 1000
"""Classes among which a similar name is looked for."""


class ClassIndex(dict[Any, int]):
    """Maps labels to columns: ``index[label]``.

    Parameters
    ----------
    names
        The classes in column order.
    written
        Notation of labels. "exact": the class itself. "json": as others write it, where only one
        class can be meant: the class 1 is also "1", 1.0, and of 0 and 1 true; a name in another
        case, or with blanks around it; of classes named LABEL_0, LABEL_1, ... the number alone; a 1
        among zeros. "file": also a column number where no class is named by a number; and -1 is a
        missing label.

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
        m, hint = len(self._names), ""
        if self._written == "file":
            hint = self._hint(label)
        return f"{_shown(label)} is none of the {m} classes: {preview(self._names)}{hint}"

    def _hint(self, label: Any) -> str:
        """What a label that is unknown may be."""
        if isinstance(label, list) and len(label) == len(self) and not isinstance(label[0], str):
            return "; a number for each class? The label is the class of the largest: argmax it"
        if not isinstance(label, str) or len(label) > MOST_SHOWN or len(self) > MOST_COMPARED:
            return ""
        close = get_close_matches(label.casefold(), self._folded, 1, 0.8)
        return f"; did you mean {self._names[self._folded[close[0]]]!r}?" if close else ""

    def column(self, label: Any) -> int:
        """The column of a label of any type, also of one that cannot be hashed."""
        try:
            return self[label]
        except TypeError:
            column = None if self._written == "exact" else self.one_hot(label)
        if column is None:
            raise UnknownClass(self._unknown(label))
        return column

    def _other(self, label: Any) -> int | None:
        """The column of a label that is not written like its class."""
        if self._written == "file" and (label is None or label != label):
            return -1
        if isinstance(label, str):
            text = label.strip()
            column = self.get(text, self._folded.get(text.casefold()))
            if column is None and self._written == "file" and is_missing(text):
                return -1
            if column is not None or not text:
                return column
            if text.casefold() in TRUTHS:
                label = TRUTHS[text.casefold()]
            else:
                try:
                    label = float(text)
                except ValueError:
                    if printed := _PRINTED.fullmatch(text):
                        return self._other(printed[1].strip(" '\""))
                    return self.one_hot(re.split(r"[\s,;]+", text.strip("[]() ")))
        if isinstance(label, bool):
            column = self.get(json_name(label), self._folded.get(str(label).casefold()))
            if column is None and self._numbers.keys() == {0.0, 1.0} and len(self) == 2:
                return self._numbers[label]
            return column
        if not isinstance(label, int | float):
            return None
        column = self._numbers.get(label, self.get(json_name(label)))
        if column is None and self.by_position and 0 <= label < len(self) and label == int(label):
            return int(label)
        return column

    def is_position(self, label: Any) -> bool:
        """Whether a label of one of the classes is its number, not a name."""
        try:
            return self.by_position and float(str(label)) >= 0
        except ValueError:
            return False

    @cached_property
    def _folded(self) -> dict[str, int]:
        """Names without case or blanks around them, where no two are one."""
        folded = [str(key).strip().casefold() for key in self]
        often = Counter(folded)
        return {text: k for k, text in enumerate(folded) if often[text] == 1}

    def one_hot(self, label: Any) -> int | None:
        """The column of the only 1 among a 0 for each other class; of a list of one name, its own;
        None for other lists."""
        if isinstance(label, dict):
            names = [name for name, bit in label.items() if bit == 1]
            return self.column(names[0]) if len(names) == 1 and _are_bits(label.values()) else None
        if not isinstance(label, list | tuple | np.ndarray):
            return None
        entries = label.tolist() if isinstance(label, np.ndarray) else label
        if len(entries) == 1 and len(self) > 1 and not isinstance(entries[0], list | dict):
            (name,) = entries
            return None if isinstance(name, str) and name not in self else self.column(name)
        if len(entries) != len(self) or not _are_bits(entries):
            return None
        columns = [k for k, bit in enumerate(entries) if str(bit) in ONES]
        return columns[0] if len(columns) == 1 else None


TRUTHS = {"true": True, "t": True, "yes": True, "y": True,
          "false": False, "f": False, "no": False, "n": False}  # fmt: skip
"""Texts of booleans, which are the classes 1 and 0."""
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "nil", "\\n", "missing")
)
"""Texts of a label that nobody knows, without case."""


ONES, ZEROS = ("1", "1.", "1.0", "True"), ("0", "0.", "0.0", "False")
"""Texts of entries of a one-hot label, as JSON, Python and numpy print them."""


def is_missing(text: str) -> bool:
    """Whether a text says that there is no label; where a class has that name, it does not."""
    return text.strip().casefold() in MISSING


def _are_bits(entries: Iterable[Any]) -> bool:
    """Whether each is 0 or 1, perhaps as text."""
    return all(
        isinstance(bit, int | float | str) and str(bit) in (*ONES, *ZEROS) for bit in entries
    )


def trailing_numbers(names: Sequence[str]) -> list[int] | None:
    """The numbers at the ends of names that differ in these alone, as LABEL_0, LABEL_1; None for
    other names."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    parts = [match for match in matches if match is not None]
    if len(parts) < len(names) or len({match[1] for match in parts}) > 1:
        return None
    numbers = [int(match[2]) for match in parts]
    return numbers if len({*numbers}) == len(numbers) else None
