"""Classes that gain and lose in a replay."""

from __future__ import annotations

import numpy as np

from stream_can.replay.names import readable
from stream_can.replay.result import Replay

__all__ = ["gains"]

SIGMAS = 3
"""Standard deviations of a fair coin by which changed rows must differ to count."""


def gains(result: Replay) -> str:
    """One line: the class that gains most and the one that loses most."""
    said = []
    right, wrong = result.made_right, result.made_wrong
    change = right - wrong
    sure = np.abs(change) > SIGMAS * np.sqrt(right + wrong)
    up, down = np.flatnonzero(sure & (change > 0)), np.flatnonzero(sure & (change < 0))
    if not len(up) and not len(down):
        return "No class gains or loses right predictions beyond chance."
    for which, verb, order in ((up, "gains", 1), (down, "loses", -1)):
        if not len(which):
            said.append(f"No class {verb} right predictions beyond chance.")
            continue
        k = int(which[np.argmax(order * change[which])])
        name = readable(result.classes[k], 40)
        rest = len(which) - 1
        more = f"; {rest:,} more {verb if rest == 1 else verb[:-1]}" if rest else ""
        said.append(
            f"Class {name} {verb} most: {right[k]:,} of its {result.raw_classes.rows[k]:,} rows"
            f" made right, {wrong[k]:,} made wrong{more}."
        )
    return " ".join(said)
