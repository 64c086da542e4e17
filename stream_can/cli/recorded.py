"""A recording that a command was given: how to read it, and what its report says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_can.cli.arguments import COMMAND_LINE
from stream_can.cli.options import names_of
from stream_can.method.rows import Normalise
from stream_can.recording.recording import Recording
from stream_can.recording.sparse import SparseRecording

__all__ = ["RATES", "form_of", "made_from"]

RATES = (0.01, 0.05, 0.2, 1.0)
"""The shares of labels of a report's figure of what labels buy."""


def form_of(
    probs: str,
    label: str,
    id: str,
    classes: str | None,
    normalise: Normalise,
    segments: Sequence[str] = (),
) -> dict[str, Any]:
    """The keyword arguments that a recording and its validation rows have in common."""
    return {
        "probs": probs, "label": label, "id": id, "classes": names_of(classes),
        "normalise": normalise, "segments": segments,
    }  # fmt: skip


def made_from(recording: Recording | SparseRecording) -> dict[str, str]:
    """The file and the command, for a report to say."""
    return {
        "file": f"{recording.name} ({recording.size:,} bytes)",
        "command": COMMAND_LINE.get(),
    }
