"""Numbers as platforms write them, perhaps as texts."""

from __future__ import annotations

import math
from typing import Any


def number_of(value: Any) -> float | None:
    """A number, or a text of a finite one, perhaps in percent."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = value.rstrip() if isinstance(value, str) else ""
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) or not isinstance(value, str) else None


def numbers_of(values: Any) -> list[Any] | None:
    """Numbers, None where one is missing; None where a value is something else."""
    if not isinstance(values, list | tuple) or not values:
        return None
    numbers = [number_of(value) for value in values]
    pairs = zip(values, numbers, strict=True)
    return None if any(x is None and value is not None for value, x in pairs) else numbers
