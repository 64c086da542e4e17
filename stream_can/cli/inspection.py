"""What a corrector has learned: its snapshot in a file, and that as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch

__all__ = ["describe", "read_snapshot"]


def read_snapshot(path: str | Path) -> tuple[Corrector, dict[str, Any]]:
    """The corrector in a file, and what else the file says.

    Parameters
    ----------
    path
        What :meth:`Corrector.to_bytes` returned, or the state file of ``stream-can pipe``.

    Returns
    -------
    The corrector; for the state of a stream its positions and counts, else nothing.

    Raises
    ------
    SnapshotMismatch
        The file is no snapshot, corrupt, or of a newer version; the message names it.
    """
    data = Path(path).read_bytes()
    try:
        head, _ = snapshot.decode(data)
        if "task" not in head:
            return Corrector.from_bytes(data), {}
        stream = {name: head[name] for name in ("next_prediction", "next_label", "counts")}
        return Corrector.from_bytes(head["corrector"]), stream
    except SnapshotMismatch as error:
        raise SnapshotMismatch(f"{path}: {error}") from None


def describe(corrector: Corrector) -> dict[str, Any]:
    """Everything a corrector can say about itself, as JSON would have it; nan becomes None."""
    recent = {name: _or_none(value) for name, value in corrector.recent_log_loss.items()}
    return {
        "classes": list(corrector.classes),
        "predictions": corrector.n_predictions,
        "labels": corrector.n_labels,
        "effective_sample_size": corrector.effective_sample_size,
        "recent_log_loss": recent,
        "temperature": corrector.temperature,
        "prior": corrector.prior.tolist(),
        "weights": corrector.weights,
        "confident_sums": {name: sums.tolist() for name, sums in corrector.confident_sums.items()},
        "settings": {name: _or_text(value) for name, value in corrector.settings.items()},
        "fit": corrector.fit_report,
    }


def _or_none(value: float) -> float | None:
    return None if value != value else value


def _or_text(value: Any) -> Any:
    """JSON knows no infinity."""
    return "inf" if value == float("inf") else value
