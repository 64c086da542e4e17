"""Numbers as platforms write them, perhaps as texts."""

from __future__ import annotations

from typing import Any


def number_of(value: Any) -> float | None:
    """A number, or a text of one, perhaps in percent."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        if isinstance(value, str) and value.rstrip().endswith("%"):
            return float(value.rstrip()[:-1]) / 100
        return float(value)
    except (ValueError, OverflowError):
        return None


def numbers_of(values: Any) -> list[Any] | None:
    """Numbers, None where one is missing; None where a value is something else."""
    if not isinstance(values, list | tuple) or not values:
        return None
    numbers = [number_of(value) for value in values]
    pairs = zip(values, numbers, strict=True)
    return None if any(x is None and value is not None for value, x in pairs) else numbers
