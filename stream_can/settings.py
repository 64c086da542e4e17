"""What a corrector is made with, checked: the names of its classes and its settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from .kernel import UNCERTAINTIES


def class_names(classes: int | Iterable[Hashable]) -> tuple[Any, ...]:
    """The names of the classes, checked; 0..m-1 for an int."""
    if isinstance(classes, (int, np.integer)) and not isinstance(classes, bool):
        if classes < 1:
            raise ValueError(f"classes: {classes} classes, expected at least 1")
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


RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "half_life": (lambda v: v > 0, "a number of events > 0 (inf forgets nothing)"),
    "uncertainty": (lambda v: v in UNCERTAINTIES, f"one of {', '.join(UNCERTAINTIES)}"),
    "k": (lambda v: v >= 2 and int(v) == v, "an integer >= 2"),
    "threshold": (lambda v: 0 <= v <= 1, "a number from 0 to 1"),
    "pseudo_count": (lambda v: v is None or 0 <= v < math.inf, "a number >= 0"),
    "prior_strength": (lambda v: v is None or v > 0, "a number > 0 (inf for a fixed prior)"),
}
"""{setting: (what holds of a good value, in words)}"""


def check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as plain values, or a ValueError that names the one out of range."""
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in settings.items()}
    for name, value in plain.items():
        good, expected = RULES[name]
        try:
            fits = good(value) and not isinstance(value, bool)
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            raise ValueError(f"{name}: {value!r}, expected {expected}")
    return plain | {"k": int(plain["k"])}


def preview(names: Sequence[Any], most: int = 8) -> str:
    """The first names of a long list, for a message."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
