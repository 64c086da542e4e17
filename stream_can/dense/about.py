"""Description of a dense corrector, for the status page and `inspect`."""

from __future__ import annotations

from typing import Any

from stream_can.app.learned import Knowledge
from stream_can.corrector import Corrector
from stream_can.method.promise import promise_of


def describe(corrector: Corrector) -> dict[str, Any]:
    """Everything as JSON; nan becomes None."""
    recent = {name: _or_none(value) for name, value in corrector.recent_log_loss.items()}
    return {
        "classes": list(corrector.classes),
        "predictions": corrector.n_predictions,
        "labels": corrector.n_labels,
        "effective_sample_size": corrector.effective_sample_size,
        "recent_log_loss": recent,
        "fitted_log_loss": corrector.fitted_log_loss,
        "temperature": corrector.temperature,
        "prior": corrector.prior.tolist(),
        "weights": corrector.weights,
        "final_weights": corrector.final_weights,
        "last_temperature": corrector.last_temperature,
        "silent_classes": list(corrector.silent_classes),
        "coverage": corrector.coverage,
        "confident_sums": {name: sums.tolist() for name, sums in corrector.confident_sums.items()},
        "settings": {name: _or_text(value) for name, value in corrector.settings.items()}
        | {name: value for name, value in promise_of(corrector).items() if value is not None}
        | ({"monotone": True} if corrector.monotone else {}),
        "fit": corrector.fit_report,
        "follows_mix": corrector.follows_mix,
    }


def learned(corrector: Corrector, most: int) -> Knowledge:
    """What the live page shows; at most so many classes."""
    prior, counts = corrector.prior, corrector.label_counts
    total, recent = float(counts.sum()), corrector.recent_log_loss
    largest = (-prior).argsort(kind="stable")[:most].tolist()
    return Knowledge(
        [
            (corrector.classes[i], float(counts[i]) / total if total else None, float(prior[i]))
            for i in largest
        ],
        silent=corrector.silent_classes,
        log_loss_before=_or_none(recent["raw"]),
        log_loss_after=_or_none(recent["corrected"]),
        log_loss_fitted=corrector.fitted_log_loss,
        last_temperature=corrector.last_temperature,
        coverage=corrector.coverage,
    )


def _or_none(value: float) -> float | None:
    return None if value != value else value


def _or_text(value: Any) -> Any:
    """Replace infinity by text: JSON has none."""
    return "inf" if value == float("inf") else value
