"""Vectors of Spark, and tensors of the open inference protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_can.messages.number_texts import numbers_of


def printed_vector(value: Sequence[Any]) -> list[float] | None:
    """A sparse vector as Spark prints it: size, indices and values; or size, {index: value}."""
    size, *rest = value or [None]
    if isinstance(size, bool) or not isinstance(size, int):
        return None
    if len(rest) == 1 and isinstance(rest[0], dict):
        return spread_vector(size, [*rest[0]], [*rest[0].values()])
    return spread_vector(size, *rest) if len(rest) == 2 else None


def spread_vector(size: Any, indices: Any, values: Any) -> list[float] | None:
    """A sparse vector with its zeros; None where it is none."""
    numbers = numbers_of(values) if values else []
    if numbers is None or not isinstance(indices, list | tuple) or len(indices) != len(numbers):
        return None
    if not isinstance(size, int) or not 0 < size <= 2**24 or None in numbers:
        return None
    row = [0.0] * size
    for index, number in zip(indices, numbers, strict=True):
        if not isinstance(index, int) or not 0 <= index < size:
            return None
        row[index] = number
    return row


def is_tensor(value: dict[str, Any]) -> bool:
    return {"shape", "datatype", "data"} <= value.keys()


def is_row_tensor(value: dict[str, Any]) -> bool:
    """Whether a tensor holds one row of several numbers."""
    if not is_tensor(value) or not str(value["datatype"]).startswith(("FP", "BF")):
        return False
    *rows, m = value["shape"] or [1]
    return all(n == 1 for n in rows) and isinstance(m, int) and m > 1
