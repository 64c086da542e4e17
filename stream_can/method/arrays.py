"""Arrays of a corrector: one table with types, shapes and bounds.

Names are those in snapshots. An array of a base has the base's name after a dot: ``b.vector``.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_can.method.bases import (
    BASES,
    MOST_C,
    MOST_LOG_B,
    MOST_T,
)
from stream_can.method.sums import EXPERTS, MOVING_EXPERTS

HUGE = 1e30
"""Upper bound of decayed sums; far below the range of float32."""

MOST_EVENTS = 1 << 53
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0

BINS = 15
"""Number of bins of the top class's probability."""


class Spec(NamedTuple):
    """An array of the state; in shapes "m" stands for the number of classes, "m+1", "paths"
    likewise.

    "t" is the number of features of a base with columns, "t2" that of their pairs.
    """

    dtype: str
    shape: tuple[int | str, ...]
    least: float | tuple[float, ...] = 0
    """Bounds of each number, those to which the loop clips, if any: so nothing becomes NaN."""
    most: float | tuple[float, ...] = HUGE

    def size(self, m: int, n_paths: int, n_columns: int = 0) -> tuple[int, ...]:
        """The shape in numbers."""
        t = 3 + 2 * n_columns
        sizes = {"m": m, "m+1": m + 1, "paths": n_paths, "t": t, "t2": t * (t + 1) // 2}
        sizes["bins"] = BINS * (2 if m == 2 else 1)  # of two classes each has bins
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.shape)


ARRAYS = {
    "weights": Spec("f8", ("paths",), 0, 1.001),
    "labels": Spec("f8", ("m",)),  # L, decayed counts
    # decayed log loss before and after (rounding takes it below 0), their weight, the anchor's
    "recent": Spec("f8", (4,), (-1, -1, 0, -1)),
    "counts": Spec("i8", (3,), 0, MOST_EVENTS),  # predictions, labels, those with their prediction
    "mean": Spec("f8", ("m+1",)),  # M, decayed sum of the predictions, then their number N
    "predicted": Spec("f8", ("m",)),  # N_j, decayed counts of rows predicted as j
    "labelled": Spec("f8", ("m+1",)),  # n_j, decayed counts of their labels, then their sum n
    "heard": Spec("i8", ("m",), -1, 1),  # 1 a label has come, 0 none has, -1 none has: silent
    "agreement": Spec("f8", (3,)),  # labels that are the argmax, that are not, sum of their p_j
    "heaviest": Spec("f8", (1,), 1, MOST_WEIGHT),  # the largest weight of a label, at least 1
    "odds": Spec("f8", (2,), -HUGE),  # log odds of mixture and tempered mixture against the anchor
    "u": Spec("f8", (1,), -MOST_LOG_B, MOST_LOG_B),  # log b
    "K": Spec("f8", (1,), -HUGE),  # its curvature; rounding takes it below 0
    # log b, t1, t2
    "u3": Spec("f8", (3,), (-MOST_LOG_B, -MOST_T, -MOST_T), (MOST_LOG_B, MOST_T, MOST_T)),
    "K3": Spec("f8", (6,), -HUGE),  # their curvature, the upper triangle of a 3 x 3 matrix
    "u4": Spec("f8", (4,), (-MOST_LOG_B, *[-MOST_T] * 3), (MOST_LOG_B, *[MOST_T] * 3)),  # and t3
    "K4": Spec("f8", (10,), -HUGE),
    "ut": Spec("f8", ("t",), -MOST_T, MOST_T),  # the same and two for each column
    "Kt": Spec("f8", ("t2",), -HUGE),
    "c": Spec("f8", ("m",), -MOST_C, MOST_C),
    # curvatures of c and A; r (1 - r) is below 0 where r is 1 and an ulp
    "H": Spec("f8", ("m",), -1),
    "A": Spec("f4", ("m", "m"), -MOST_C, MOST_C),
    "G": Spec("f4", ("m", "m"), -1),
    # of a whole matrix: moments of its inputs, on and below the diagonal; their mean inverted;
    # the inputs' squares, how many labels those are of, and the moments; labels, and at the inverse
    "C": Spec("f4", ("m", "m"), -HUGE),
    "P": Spec("f4", ("m", "m"), -HUGE),
    "s": Spec("f8", (3,), (0, 1e-300, 0)),
    "n": Spec("i8", (2,), 0, MOST_EVENTS),
    # what was predicted of late: sums over the last rows, and over those of the last labels, each
    # with its number; then sums of the squares of their weights
    "late.rows": Spec("f8", ("m+1",)),
    "late.labels": Spec("f8", ("m+1",)),
    "late.rows.squares": Spec("f8", (1,)),
    "late.labels.squares": Spec("f8", (1,)),
    "late.labels.number": Spec("f8", (1,)),  # and of those labels, without their weights
    "squares": Spec("f8", ("m+1",)),  # decayed sum of the predictions' squares, then N
    "S": Spec("f8", ("m",)),  # decayed column sums of the confident rows
    "odds.moving": Spec("f8", (1,), -HUGE),  # and of the rows that come behind those
    "odds.plain": Spec("f8", (1,), -HUGE),
    "odds.known": Spec("f8", (1,), -HUGE),
    "odds.raw": Spec("f8", (1,), -HUGE),
    "odds.calibrated": Spec("f8", (1,), -HUGE),
    "bins": Spec("f8", (3, "bins")),  # by the top of rows: their labels, the right ones, their top
    # the class mix without labels: what an expert counts, then the number of rows N
    "Q": Spec("f8", ("m+1",)),
    "ref": Spec("f8", ("m",), 1e-30, 1),  # the mix that the fitted base's start from; divided by
    "W": Spec("f8", (1 + len(EXPERTS),), 0, 1.001),  # weights: of none, then of each expert
    "W.moving": Spec("f8", (1 + len(MOVING_EXPERTS),), 0, 1.001),
    "W.rival": Spec("f8", (1,), 0, 1.001),  # and of what explains rows without a mix
    "held": Spec("f8", ("m",), 1),  # by which factor a class of the mix may be off ref
    # its cells: shares of validation's rows, edges of their thirds, and counts of rows in each
    "cells": Spec("f8", ("m", 3), 1e-30, 1),
    "edges": Spec("f8", (2,), 0, 1.001),
    "rival": Spec("f8", ("m+1",)),
    "V": Spec("f8", ("m+1",)),  # decayed sum of the anchor's rows, then their number
    "sharp": Spec("f8", ("m",), 0, 1.001),  # mean |r|^2 of the validation rows of each class
    # prediction sets: scores of labels, what rows believe in, and what method/sets.h says of them
    "sets.labels": Spec("f8", (560,), 0, 1e211),
    "sets.belief": Spec("f8", (560,), 0, 1e209),
    "sets.numbers": Spec(
        "f8", (6,), (1, 1, 0, -1e6, 0, 0), (1e201, 1e201, 1e209, 1e6, 1e211, 1e18)
    ),
    "sets.counts": Spec("i8", (2,), 0, MOST_EVENTS),  # rows, labels
    "sets.groups": Spec("f8", ("m", 2), -1e6, 1e18),  # i of each class, and its labels
    "D": Spec("f8", (2,), (-HUGE, 0)),  # decayed sum of |r|^2 less than that, then its weight
}
"""Arrays of the state; from ``u`` on one per base, or for the last temperature."""


def spec(name: str) -> Spec:
    """Describe the array of this name; several features of a base share an array."""
    if name in ARRAYS:
        return ARRAYS[name]
    kind, _, base = name.partition(".")
    if kind not in ("u", "K") or base not in BASES or BASES[base].features == 1:
        return ARRAYS[kind]
    return ARRAYS[f"{kind}t" if BASES[base].segmented else f"{kind}{BASES[base].features}"]
