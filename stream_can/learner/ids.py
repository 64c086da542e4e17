"""Ids as Python programs have them: numpy's scalars and arrays, columns of frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

PLAIN = frozenset((str, int, bytes, type(None)))


def plain_id(id: Any) -> Any:
    """An id as Python has it: numpy's integers and texts become Python's, pandas' NA is None."""
    if type(id) in PLAIN:
        return id
    if isinstance(id, np.integer | np.str_ | np.bytes_):
        return id.item()
    if isinstance(id, str):  # of a class of its own, which is not saved
        return str.__str__(id)
    if isinstance(id, int | bytes) and not isinstance(id, bool):
        return int(id) if isinstance(id, int) else bytes(id)
    return None if type(id).__name__ == "NAType" else id


def plain_ids(ids: Iterable[Any]) -> list[Any]:
    """:func:`plain_id` of each."""
    names = list(ids)
    return names if {*map(type, names)} <= PLAIN else [plain_id(id) for id in names]
