"""Arrays of the corrector with which a new version of a multilabel classifier starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_can.method.successor import balanced
from stream_can.multilabel.loop import OF_LABELS, PRECISIONS
from stream_can.multilabel.snapshot_arrays import numbers_by_name

__all__ = ["discount_arrays"]


def discount_arrays(arrays: dict[str, NDArray[np.float64]], d: float) -> None:
    """Multiply the evidence in a corrector's arrays by d, from 0 to 1, in place."""
    of = numbers_by_name(arrays["numbers"])
    label = dict(zip(OF_LABELS, arrays["labels"], strict=True))
    for name in ("temperature", "vector"):
        of[name][:] = balanced(of[name], of[f"{name}_Q"], d, PRECISIONS[name])
    for name, curvature in (("c", "H"), ("s", "H_s")):
        a = PRECISIONS[name]
        label[name] *= d * (label[curvature] + a) / (d * label[curvature] + a)
    for name, number in of.items():
        if name not in ("temperature", "vector", "weights", "threshold"):
            number *= d
    for name in ("n_predictions", "n_labels", "n_learned"):
        of[name][:] = np.floor(of[name])
    for name, numbers in label.items():
        if name not in ("c", "s", "L", "L_N"):
            numbers *= d
    arrays["bins"] *= d
