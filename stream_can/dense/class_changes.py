"""Classes that gain or lose right predictions beyond chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_can.dense.result import DenseReplay
from stream_can.replay.names import readable

LOSING = 8
"""Maximum number of further classes named that lose."""
SIGMAS = 3
"""Standard deviations of a fair coin by which changed rows must differ to count."""


def losing(result: DenseReplay) -> NDArray[np.intp]:
    """Indices of the classes of which more rows were made wrong than right, beyond chance."""
    return _changed(result, -1)


def _changed(result: DenseReplay, sign: int) -> NDArray[np.intp]:
    changes = result.class_changes
    return np.flatnonzero(sign * changes.gain > SIGMAS * np.sqrt(changes.squares))


def gains(result: DenseReplay) -> str:
    """One line: the class that gains most, and those that lose."""
    sentences = []
    right, wrong = result.class_changes.right, result.class_changes.wrong
    change = result.class_changes.gain
    up, down = _changed(result, 1), losing(result)
    if not len(up) and not len(down):
        return "No class gains or loses right predictions beyond chance."
    for changed, verb, order in ((up, "gains", 1), (down, "loses", -1)):
        if not len(changed):
            sentences.append(f"No class {verb} right predictions beyond chance.")
            continue
        k = int(changed[np.argmax(order * change[changed])])
        name = readable(result.classes[k], 40)
        n_further = len(changed) - 1
        suffix = f"; {n_further:,} more {verb if n_further == 1 else verb[:-1]}" * bool(n_further)
        if n_further and order < 0:
            losers = sorted(set(changed.tolist()) - {k}, key=lambda i: change[i])[:LOSING]
            suffix += f": {', '.join(readable(result.classes[i], 40) for i in losers)}"
            suffix += f" and {n_further - LOSING:,} others" if n_further > LOSING else ""
        sentences.append(
            f"Class {name} {verb} most: {right[k]:,} of its {result.raw_classes.rows[k]:,} rows"
            f" made right, {wrong[k]:,} made wrong{suffix}."
        )
    return " ".join(sentences)
