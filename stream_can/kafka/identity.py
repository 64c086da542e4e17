"""Whether a state belongs to an application: settings that stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stream_can.app.models import DeclaredCorrector
from stream_can.app.start import Start
from stream_can.errors import SnapshotMismatch
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Index
from stream_can.learner.model_name import Name

__all__ = ["IDENTITY", "identity_of", "require_fits", "require_identity"]

IDENTITY = (
    "application_id", "input", "output", "rows", "probs", "logits", "raw", "id", "model", "version",
)  # fmt: skip
"""Settings fixed when the application begins."""


def identity_of(settings: Settings, start: Start) -> dict[str, Any]:
    """The settings that identify an application."""
    identity = {name: getattr(settings, name) for name in IDENTITY}
    return (
        identity | {"segments": list(start.segments), "classes": list(start.classes)} | start.fixed
    )


def require_identity(index: Index, settings: Settings, start: Start) -> None:
    """Raise DeniedError where a state belongs to another application."""
    s, identity = settings, identity_of(settings, start)
    differences = [
        f"{name} is {index.identity.get(name)!r} there and {expected!r} here"
        for name, expected in identity.items()
        if index.identity.get(name) != expected
    ]
    if differences:
        raise DeniedError(
            f"topic {s.state_topic!r} holds the state of other settings: {'; '.join(differences)};"
            " set these back, start over with `stream-can learn --reset`, or give another"
            " application_id"
        )


def require_fits(
    begin: DeclaredCorrector,
    live: Iterable[tuple[Name, DeclaredCorrector]],
    settings: Settings,
    start: Start,
) -> None:
    """Raise DeniedError where a state is not what the settings would begin: see
    :meth:`stream_can.app.start.Start.require_fits`."""
    try:
        start.require_fits(begin, live)
    except SnapshotMismatch as error:
        raise DeniedError(
            f"topic {settings.state_topic!r} holds the state of other settings: {error};"
            " `stream-can learn --reset` starts over"
        ) from None
