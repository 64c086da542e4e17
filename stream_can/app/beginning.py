"""Beginning: classes and counts, or the snapshot, with which the first corrector begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stream_can.app.application import ApplicationSettings
from stream_can.app.model_settings import Counts
from stream_can.app.settings import SettingsError
from stream_can.errors import SnapshotMismatch
from stream_can.row_kinds import kind_of_snapshot, refuse_few_classes, row_kind
from stream_can.snapshot import MAGIC, read


class ClassesFile(msgspec.Struct, forbid_unknown_fields=True):
    """JSON content of ``classes_from_file``."""

    classes: list[str | int | float]
    train_counts: Counts | None = None


def _require_rows(data: bytes, rows: str, where: str) -> None:
    """Raise SettingsError where a snapshot is not of a corrector of such rows."""
    try:
        kind = kind_of_snapshot(data)
    except SnapshotMismatch as error:
        raise SettingsError(
            f"{where}: {error}; `stream-can inspect FILE --save corrector.state` takes a corrector"
            " out of it"
        ) from None
    if kind.name != rows:
        raise SettingsError(
            f"{where} has a corrector of {kind.described}: set rows = {kind.name!r}, or name a"
            f" snapshot of {row_kind(rows).described}"
        )


class Beginning(NamedTuple):
    """What the settings say of the first corrector."""

    classes: list[Any] | None
    train_counts: Counts | None
    snapshot: bytes | None


def beginning_of(settings: ApplicationSettings) -> Beginning:
    """Classes and counts of the settings or their file, or the snapshot in that file.

    Raises
    ------
    SettingsError
        The file cannot be read.
    """
    counts = settings.train_counts
    if settings.classes_from_file is None:
        return Beginning(settings.classes, counts, None)
    path = Path(settings.classes_from_file)
    try:
        data = read(path)
        if data.startswith(MAGIC):
            _require_rows(data, settings.rows, f"classes_from_file: {path}")
            return Beginning(None, counts, data)
        content = msgspec.json.decode(data, type=ClassesFile)
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"classes_from_file: {path}: {error}") from None
    kind, name = row_kind(settings.rows), f"classes_from_file: {path}: classes"
    refuse_few_classes(kind, content.classes, name=name, ways='["cat", "dog", "eel"]')
    return Beginning(list(content.classes), counts or content.train_counts, None)
