"""What every partition starts from: classes and training counts, or a snapshot that has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from stream_can.corrector import Corrector
from stream_can.kafka.settings import Settings, SettingsError
from stream_can.snapshot import MAGIC


class ClassesFile(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON form of ``classes_from_file``."""

    classes: list[str | int | float]
    train_counts: list[float] | dict[str, float] | None = None


class Start:
    """Makes the Corrector of a partition that begins.

    Parameters
    ----------
    settings
        Either names its classes or the file that has them.

    Raises
    ------
    SettingsError, SnapshotMismatch, ValueError
        What is given does not make a Corrector.
    """

    def __init__(self, settings: Settings) -> None:
        names, counts = settings.classes, settings.train_counts
        given: Any = settings.corrector
        self._snapshot: bytes | None = None
        if settings.classes_from_file is not None:
            path = Path(settings.classes_from_file)
            try:
                data = path.read_bytes()
                if data.startswith(MAGIC):
                    corrector = Corrector.from_bytes(data, train_counts=counts, **given)
                    self._snapshot = corrector.to_bytes()
                else:
                    found = msgspec.json.decode(data, type=ClassesFile)
                    names, counts = found.classes, counts or found.train_counts  # type: ignore[assignment]
            except (OSError, msgspec.DecodeError) as error:
                raise SettingsError(f"classes_from_file: {path}: {error}") from None
        if self._snapshot is None:
            assert names is not None
            corrector = Corrector(names, train_counts=counts, **given)
            self._snapshot = corrector.to_bytes()
        self.classes = corrector.classes
        self.settings: dict[str, Any] = {**corrector.settings, "paths": settings.paths}
        """For a stored Corrector: settings in force, and the paths it must have where given."""

    def corrector(self) -> Corrector:
        """A new one, equal for every partition."""
        return Corrector.from_bytes(self._snapshot)  # type: ignore[arg-type]
