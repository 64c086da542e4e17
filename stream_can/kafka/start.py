"""Initial correctors and message readers of an application between topics."""

from __future__ import annotations

from stream_can.app.start import SeveralStart, Start
from stream_can.kafka.schemas import formats
from stream_can.kafka.settings import Settings

__all__ = ["start_of"]


def start_of(settings: Settings) -> Start:
    """Create the source of initial correctors, for rows of any sort that topics support.

    Raises
    ------
    SettingsError, SnapshotMismatch, ValueError
        The settings do not make a corrector.
    """
    return SeveralStart(settings) if settings.several else Start(settings, formats(settings))
