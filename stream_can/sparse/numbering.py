"""ClassNumbering: checks rows and labels of messages, and numbers the new classes among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.sparse.corrector import SparseCorrector
from stream_can.sparse.row_checks import checked_row, numbered_row


class NamedRow(NamedTuple):
    """A checked row by name."""

    names: list[Any]
    P: NDArray[np.float64]


class ClassNumbering:
    """Checks rows and labels by the classes of a corrector, and numbers new ones."""

    adds = True

    def __init__(self, corrector: SparseCorrector) -> None:
        self._classes = corrector._classes
        self.numbered = self._classes.names is None
        """Whether classes are numbers."""

    def checked(self, row: Mapping[Any, float]) -> Any:
        """Check a row; InvalidPrediction where it is invalid."""
        return numbered_row(row, self._classes)

    def number(self, name: Any) -> int:
        """The number of a class; UnknownClass where there can be none of this name."""
        return self._number(name, add=self.adds)

    def _number(self, name: Any, *, add: bool) -> int:
        (number,) = self._classes.numbers_of([name], "label", add=add, error=UnknownClass)
        return number

    def named(self, text: str) -> Any:
        """The class of a text, which may be a new name; UnknownClass where there can be none."""
        try:
            name: Any = int(text) if self.numbered else text
        except ValueError:
            raise UnknownClass(f"{text!r} is none of the classes, which are numbers") from None
        self._number(name, add=False)
        return name

    def known(self, text: str) -> Any:
        """Find a class by its name as text; UnknownClass where no row or label had it."""
        name = self.named(text)
        if self._number(name, add=False) >= self._classes.known:
            raise UnknownClass(f"no class is called {text!r}")
        return name


class Lookup(ClassNumbering):
    """Numbers no new classes: for a process that corrects by a state and does not learn."""

    adds = False

    def checked(self, row: Mapping[Any, float]) -> NamedRow:
        """Check a row, see :meth:`ClassNumbering.checked`."""
        return NamedRow([*row], checked_row(row, self._classes).P[0])
