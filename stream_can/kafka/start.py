"""Initial correctors and message readers of an application between topics."""

from __future__ import annotations

from stream_can.app.application import SEGMENTS_MB
from stream_can.app.start import Start
from stream_can.kafka.schemas import formats
from stream_can.kafka.settings import Settings

__all__ = ["KafkaStart"]


class KafkaStart(Start):
    """Creates initial correctors.

    Parameters
    ----------
    settings
        The settings; they name the classes or a file with them.

    Raises
    ------
    SettingsError, SnapshotMismatch, ValueError
        The settings do not make a Corrector.
    """

    _given: Settings

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, formats(settings))

    @property
    def state_bytes(self) -> int:
        """Maximum size of a corrector as a record of the topic of states."""
        values = self._given.segments_mb or SEGMENTS_MB if self.segments else 0
        sets = 0 if self._given.sets is None else 10_000 + 16 * len(self.classes)
        return len(self.snapshot) + 200 + int(values * (1 << 20)) + sets
