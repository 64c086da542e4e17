"""Description of a sparse corrector, for the status page and `inspect`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.app.learned import Knowledge, Share
from stream_can.sparse.corrector import SparseCorrector


def describe(corrector: SparseCorrector) -> dict[str, Any]:
    """Everything as JSON."""
    return {
        "known_classes": corrector.n_classes,
        "predictions": corrector.n_predictions,
        "labels": corrector.n_labels,
        "weights": corrector.weights,
        "final_weights": corrector.final_weights,
        "settings": {
            "max_classes": corrector.m,
            "half_life": corrector.half_life,
            "memory_mb": corrector.memory / 2**20,
        },
    }


def learned(corrector: SparseCorrector, most: int) -> Knowledge:
    """What the live page shows; at most so many classes."""
    ids, label_shares, row_shares = corrector.class_shares()

    def shares(order: NDArray[np.float64]) -> list[Share]:
        largest = np.argsort(-order, kind="stable")[:most]
        columns = label_shares[largest], row_shares[largest], order[largest]
        return [
            (name, float(labels), float(rows))
            for name, labels, rows, by in zip(
                corrector.names_of(ids[largest]), *columns, strict=True
            )
            if by > 0
        ]

    return Knowledge(
        shares(label_shares),
        shares(np.abs(label_shares - row_shares)) if corrector.n_labels else [],
    )
