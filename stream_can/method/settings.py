"""The settings of a corrector, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stream_can.method.kernel import UNCERTAINTIES

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
