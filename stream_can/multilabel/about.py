"""Description of a multilabel corrector, for the status page and `inspect`."""

from __future__ import annotations

from typing import Any

from stream_can.app.learned import Knowledge
from stream_can.multilabel.corrector import MultiLabelCorrector


def describe(corrector: MultiLabelCorrector) -> dict[str, Any]:
    """Everything as JSON."""
    known, yes = corrector.label_counts
    return {
        "classes": list(corrector.labels),
        "predictions": corrector.n_predictions,
        "labels": corrector.n_labels,
        "effective_sample_size": corrector.effective_sample_size,
        "temperature": corrector.temperature,
        "threshold": corrector.threshold,
        "weights": corrector.weights,
        "final_weights": corrector.final_weights,
        "known": known.tolist(),
        "yes": yes.tolist(),
        "settings": {"half_life": corrector.half_life, "rows": corrector.row_kind},
    }


def learned(corrector: MultiLabelCorrector, most: int) -> Knowledge:
    """What the live page shows; at most so many labels."""
    n, positives = corrector.label_counts
    mix = corrector.label_mix
    return Knowledge([
        (corrector.labels[i], float(positives[i] / n[i]) if n[i] else None, float(mix[i]))
        for i in (-mix).argsort(kind="stable")[:most].tolist()
    ])  # fmt: skip
