"""Initial correctors of dense rows."""

from __future__ import annotations

from stream_can.app.application import ApplicationSettings
from stream_can.app.start import Start
from stream_can.messages.formats import Formats


def start(settings: ApplicationSettings, formats: Formats) -> Start:
    """See :func:`stream_can.app.start.start_of`."""
    return Start(settings, formats)
