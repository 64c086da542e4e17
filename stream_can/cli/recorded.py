"""Recordings given to a command: how to read them, and how reports describe them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_can.cli.arguments import COMMAND_LINE
from stream_can.method.rows import Normalise
from stream_can.recording.names import names_of
from stream_can.recording.recording import Recording
from stream_can.recording.sparse import SparseRecording

__all__ = ["RATES", "form_of", "made_from"]

RATES = (0.01, 0.05, 0.2, 1.0)
"""Label rates in a report's figure of the effect of labels."""


def form_of(
    probs: str,
    label: str,
    id: str,
    classes: str | None,
    normalise: Normalise,
    segments: Sequence[str] = (),
) -> dict[str, Any]:
    """Keyword arguments shared by a recording and its validation rows."""
    return {
        "probs": probs, "label": label, "id": id, "classes": names_of(classes),
        "normalise": normalise, "segments": segments,
    }  # fmt: skip


def made_from(recording: Recording | SparseRecording) -> dict[str, str]:
    """File and command, for reports."""
    return {
        "file": f"{recording.name} ({recording.size:,} bytes)",
        "command": COMMAND_LINE.get(),
    }
