"""Initial correctors and message readers of an application between topics."""

from __future__ import annotations

from stream_can.app import start
from stream_can.kafka.schemas import formats
from stream_can.kafka.settings import Settings

__all__ = ["start_of"]


def start_of(settings: Settings) -> start.Start:
    """Create the source of initial correctors, with the formats of the topics.

    Raises
    ------
    SettingsError, SnapshotMismatch, ValueError
        The settings do not make a corrector.
    """
    return start.start_of(settings, formats(settings))
