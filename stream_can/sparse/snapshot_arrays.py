"""Arrays of a snapshot of a `SparseCorrector`: their shapes and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import SnapshotMismatch
from stream_can.sparse.loop import NUMBERS

SHAPES = {
    "ids": (np.int32, 0), "heard": (np.int32, 0), "stamps": (np.int64, 0),
    "cells": (np.float32, 11),
    "owners": (np.int32, 0), "partners": (np.int32, 15), "A": (np.float32, 16),
    "G": (np.float32, 16), "numbers": (np.float64, 0), "front": (np.int32, 0),
}  # fmt: skip


def require_arrays(arrays: dict[str, NDArray[Any]], known: int) -> None:
    """Check that arrays of a snapshot are usable; raise SnapshotMismatch otherwise."""
    for name, (dtype, width) in SHAPES.items():
        array = arrays.get(name)
        if array is None or array.dtype != dtype or array.ndim != 1 + (width > 0):
            raise SnapshotMismatch(f"snapshot: sparse corrector without its {name}")
        if width and array.shape[1] != width:
            raise SnapshotMismatch(f"snapshot: {name} has {array.shape[1]} columns, not {width}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise SnapshotMismatch(f"snapshot: {name} is not finite")
    ids, owners, partners, front = (arrays[n] for n in ("ids", "owners", "partners", "front"))
    cells, numbers = arrays["cells"], arrays["numbers"]
    at = np.cumsum([0, *NUMBERS.values()])
    if len(numbers) != at[-1]:
        raise SnapshotMismatch(f"snapshot: {len(numbers)} numbers, expected {at[-1]}")
    of = {n: numbers[a:b] for n, a, b in zip(NUMBERS, at[:-1], at[1:], strict=True)}
    free = {"odds", "untrained", "temperature", "last", "vector", "matrix"}
    free |= {"last_Q", "vector_Q", "matrix_Q"}  # off their diagonals
    learned = of["agree"][0] + of["differ"][0]
    stamps, heard = arrays["stamps"], arrays["heard"]
    wrong = {
        "ids": len(ids) and (ids[0] < 0 or ids[-1] >= known or (np.diff(ids) <= 0).any()),
        "heard": ((heard < 0) | (heard > 1)).any() or len(heard) != len(ids),
        "stamps": ((stamps < 0) | (stamps > learned)).any() or len(stamps) != len(ids),
        "cells": len(cells) != len(ids)
        or (cells[:, [*range(7), 9, 10]] < 0).any()
        or (np.abs(cells[:, 7:9]) > 6.01).any()
        # Labels that came unlisted; sums in single precision are at most twice what they should be.
        or (cells[:, 4] > 2 * of["scale_outside"][0] * of["outside"][0]).any(),
        "owners": ((owners < 0) | (owners >= known)).any() or len(np.unique(owners)) != len(owners),
        "partners": ((partners < -1) | (partners >= known)).any() or len(partners) != len(owners),
        "A": len(arrays["A"]) != len(owners) or (np.abs(arrays["A"]) > 6.01).any(),
        "G": len(arrays["G"]) != len(owners) or (arrays["G"] < 0).any(),
        "front": len(front) > 5
        or ((front < 0) | (front >= known)).any()
        or len(np.unique(front)) != len(front),
        "numbers": any((of[n] < 0).any() for n in NUMBERS if n not in free)
        or (np.abs(numbers) > 1e300).any()
        or any((np.abs(of[n]) > 8).any() for n in ("temperature", "last", "vector", "matrix"))
        or any(not 1 <= of[n][0] <= 1e20 for n in NUMBERS if n.startswith("scale"))
        or not abs(of["weights"].sum() - 1) < 1e-6
        or not -60 < of["untrained"][0] < 60,
    }
    for name, bad in wrong.items():
        if bad:
            raise SnapshotMismatch(f"snapshot: {name} of a sparse corrector out of range")
