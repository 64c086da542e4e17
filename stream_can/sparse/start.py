"""Initial correctors of sparse rows."""

from __future__ import annotations

from typing import Any

from stream_can.app.application import ApplicationSettings
from stream_can.app.beginning import beginning_of
from stream_can.app.settings import SettingsError
from stream_can.app.start import Start
from stream_can.errors import SnapshotMismatch
from stream_can.messages.formats import JSON, Formats
from stream_can.sparse.corrector import CLASS_BYTES, SparseCorrector

TOPICS_MB = 24
"""Default of ``memory_mb`` between topics, where the corrector is a record of each state: with it
one of 98,304 classes fits brokers with default limits."""
NAME_BYTES = 64
"""Bytes of a name that a state has room for."""


def start(settings: ApplicationSettings, formats: Formats) -> SparseStart:
    """See :func:`stream_can.app.start.start_of`."""
    return SparseStart(settings)


class SparseStart(Start):
    """Initial correctors of sparse rows: a `SparseCorrector`, without models.

    Parameters
    ----------
    settings
        The application's settings.
    """

    def __init__(self, settings: ApplicationSettings) -> None:
        most = settings.memory_mb or (TOPICS_MB if settings.place == "topics" else None)
        self._memory = {} if most is None else {"memory_mb": most}
        corrector = self._first(settings)
        self.snapshot, self._fits = corrector.to_bytes(), _fits(corrector)
        self.classes, self.segments, self.formats = (), (), JSON
        self.settings = {"half_life": corrector.half_life}
        self._from_snapshot = settings.classes_from_file is not None
        self._given, self._models, self._counted = settings, {}, False

    def _first(self, settings: ApplicationSettings) -> SparseCorrector:
        """The corrector of the settings, or of the snapshot that they name."""
        named, _, snapshot = beginning_of(settings)
        if named is not None:
            raise SettingsError("classes_from_file: expected a snapshot of a SparseCorrector")
        if snapshot is not None:
            corrector = SparseCorrector.from_bytes(snapshot, **self._memory)
            numbered = corrector.names is None
            of_snapshot = {
                "max_classes": None if numbered else corrector.m,
                "n_classes": corrector.m if numbered else None, "half_life": corrector.half_life,
            }  # fmt: skip
            for name, stored in of_snapshot.items():
                if (setting := getattr(settings, name)) not in (None, stored):
                    raise SettingsError(f"{name}: {setting} here, {stored} in classes_from_file")
            return corrector
        options: dict[str, Any] = {**self._memory, **settings.corrector}
        if settings.n_classes is not None:
            return SparseCorrector(settings.n_classes, **options)
        if settings.max_classes is not None:
            options["max_classes"] = settings.max_classes
        elif settings.place == "topics":
            options["max_classes"] = int(self._memory["memory_mb"] * 2**20 / CLASS_BYTES)
        return SparseCorrector("any", **options)

    @property
    def state_bytes(self) -> int:
        """Maximum size of a corrector's snapshot."""
        return len(self.snapshot) + int(self._fits["max_classes"]) * (CLASS_BYTES + NAME_BYTES)

    @property
    def fixed(self) -> dict[str, Any]:
        """What an application that was begun may not change."""
        return self._fits

    def with_settings(self, snapshot: bytes, model: str = "") -> Any:
        """Restore a snapshot."""
        return SparseCorrector.from_bytes(snapshot, **self._memory)

    def corrector(self) -> Any:
        """Create an initial corrector."""
        return self.with_settings(self.snapshot)

    def _require_alike(self, corrector: Any) -> None:
        """Raise SnapshotMismatch where existing knowledge has other classes or half-life."""
        for name, stored in _fits(corrector).items():
            if stored != self._fits[name]:
                raise SnapshotMismatch(f"{name}: {stored} in it, {self._fits[name]} here")

    def train(self, classes: tuple[Any, ...]) -> None:
        """Return None: missing scores are not filled in."""


def _fits(corrector: SparseCorrector) -> dict[str, Any]:
    """Properties that must be equal for one corrector to continue as another."""
    return {
        "max_classes": corrector.m,
        "half_life": corrector.half_life,
        "numbers for classes": corrector.names is None,
    }
