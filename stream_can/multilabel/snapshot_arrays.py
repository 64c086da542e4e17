"""Arrays of a snapshot of a `MultiLabelCorrector`: their shapes and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import SnapshotMismatch
from stream_can.multilabel.loop import BINS, NUMBERS, OF_LABELS

Array = NDArray[np.float64]


def numbers_by_name(numbers: Array) -> dict[str, Array]:
    """Views of a state's numbers, by name."""
    at = np.cumsum([0, *NUMBERS.values()])
    return {n: numbers[a:b] for n, a, b in zip(NUMBERS, at[:-1], at[1:], strict=True)}


def require_arrays(arrays: dict[str, NDArray[Any]], m: int) -> None:
    """Check that arrays of a snapshot are usable; raise SnapshotMismatch otherwise."""
    shapes = {
        "numbers": (sum(NUMBERS.values()),), "labels": (len(OF_LABELS), m), "bins": (2, BINS),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = arrays.get(name)
        if array is None or array.dtype != np.float64 or array.shape != shape:
            raise SnapshotMismatch(f"snapshot: a multilabel corrector without its {name}")
        if not (np.abs(array) <= 1e18).all():  # also false for NaN
            raise SnapshotMismatch(f"snapshot: {name} out of range")
    of = numbers_by_name(arrays["numbers"])
    label = dict(zip(OF_LABELS, arrays["labels"], strict=True))
    signed = {"temperature", "vector", "vector_Q", "odds"}
    wrong = {
        "numbers": any((of[n] < 0).any() for n in NUMBERS if n not in signed)
        or (of["vector_Q"][[0, 4, 7, 9]] < 0).any()
        or (np.abs(of["temperature"]) > 2).any()
        or (np.abs(of["vector"]) > 5).any()
        or not abs(of["weights"].sum() - 1) < 1e-6
        or of["threshold"][0] > 1,
        "labels": any((label[n] < 0).any() for n in OF_LABELS if n not in ("c", "s"))
        or (label["M"] > of["rows"][0] + 1e-6).any()
        or (label["L"] > label["L_N"] + 1e-6).any()
        or (np.abs(label["c"]) > 6).any()
        or (label["s"] < -0.8).any()
        or (label["s"] > 1.5).any(),
        "bins": (arrays["bins"] < 0).any() or (arrays["bins"][1] > arrays["bins"][0] + 1e-6).any(),
    }  # fmt: skip
    for name, bad in wrong.items():
        if bad:
            raise SnapshotMismatch(f"snapshot: {name} of a multilabel corrector out of range")
