"""ClassNumbers: the numbers by which a sparse corrector knows its classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_can.sparse.loop import Names


class ClassNumbers:
    """Numbers of at most m classes: the classes themselves, or in the order in which names appear.

    Parameters
    ----------
    m
        Their largest number.
    named
        Whether classes have names.
    """

    def __init__(self, m: int, *, named: bool) -> None:
        self.m, self.names = m, Names(m) if named else None

    def names_of(self, ids: list[int]) -> list[Any]:
        """The names of numbers; the numbers themselves where classes have no names."""
        return ids if self.names is None else self.names.of(ids)

    def numbers_of(
        self, names: Sequence[Any], field: str, *, add: bool, error: type[ValueError] = ValueError
    ) -> list[int]:
        """Numbers of classes given by name or number.

        New names get the next numbers; without ``add`` the last ones, which no class has, for this
        call only.
        """
        if self.names is None:
            for i in names:
                if isinstance(i, bool) or not isinstance(i, int | np.integer):
                    raise error(f"{field}: {i!r}, expected a class, 0 to {self.m - 1}")
                if not 0 <= i < self.m:
                    raise error(f"{field}: {self.unknown(int(i))}")
            return [int(i) for i in names]
        for name in names:
            if type(name) is not str or not name.isascii():
                _check_name(name, field, error)
        names = [str.__str__(name) for name in names]
        if add:
            try:
                return self.names.add(names)
            except ValueError as full:
                raise error(f"{field}: {full}") from None
        known = [self.names.find(name) for name in names]
        new = dict.fromkeys(name for name, i in zip(names, known, strict=True) if i < 0)
        if len(self.names) + len(new) > self.m:
            raise error(f"{field}: {self.names.full(len(new))}")
        last = dict(zip(new, range(self.m - 1, -1, -1), strict=False))
        return [last[name] if i < 0 else i for name, i in zip(names, known, strict=True)]

    @property
    def known(self) -> int:
        """Numbers below this are classes."""
        return self.m if self.names is None else len(self.names)

    def unknown(self, i: int) -> str:
        """Why there is no class of this number."""
        if self.names is None:
            return f"class {i} is none; expected 0 to {self.m - 1}"
        return f"class {i} has no name yet, {len(self.names)} have; ids_of gives numbers to names"


def _check_name(name: Any, field: str, error: type[ValueError]) -> None:
    """Check that a name is a text."""
    if not isinstance(name, str):
        raise error(f"{field}: {name!r}, expected the name of a class, a str")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise error(f"{field}: {name!r} is no text that UTF-8 can write") from None
