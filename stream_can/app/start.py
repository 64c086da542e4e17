"""Initial correctors of an application: from classes and counts, or from a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stream_can.app.application import SEGMENTS_MB, ApplicationSettings
from stream_can.app.beginning import beginning_of
from stream_can.app.model_settings import Counts
from stream_can.app.settings import SettingsError
from stream_can.app.train_counts import match_counts
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.learner.changed_settings import changed_settings
from stream_can.learner.model_name import Name
from stream_can.messages.formats import JSON, Formats
from stream_can.messages.messages import Messages
from stream_can.method.bases import FITTED_PATHS
from stream_can.method.paths import in_order
from stream_can.method.promise import groups_of, promise_of
from stream_can.row_kinds import part
from stream_can.snapshot import match

NO_CLASSES = ("",)
"""Placeholder classes where each model has its own."""


class Start:
    """Creates initial correctors, of dense rows; a subclass, those of another kind.

    Parameters
    ----------
    settings
        The settings; they name the classes or a file with them.
    formats
        The parsers of messages.

    Raises
    ------
    SettingsError, SnapshotMismatch, ValueError
        The settings do not make a Corrector.
    """

    _from_snapshot = _knows_mix = _fitted = False

    def __init__(self, settings: ApplicationSettings, formats: Formats = JSON) -> None:
        options: Any = {"segments_mb": SEGMENTS_MB} | settings.corrector
        names, counts, snapshot = beginning_of(settings)
        if snapshot is None:
            corrector = Corrector(names or NO_CLASSES, train_counts=counts, **options)
        else:
            corrector = Corrector.from_bytes(snapshot, train_counts=counts, sets=None, **options)
        self.snapshot = corrector.to_bytes()
        """Snapshot of the initial corrector, without prediction sets."""
        self.classes = corrector.classes
        self.settings: dict[str, Any] = corrector.settings | promise_of(settings)
        """Corrector settings in force."""
        groups_of(**promise_of(settings), segments=corrector.segments)
        self.segments = corrector.segments
        self.formats = formats
        Messages(corrector.classes, settings.fields, columns=corrector.segments)  # may raise
        self._given, self._knows_mix = settings, corrector.known_prior is not None
        self._counted, self._from_snapshot = counts is not None, snapshot is not None
        self._models: dict[str, bytes | None] = {}
        if settings.has_lanes:
            self._models = {
                name: self._of_model(name, corrector) for name in sorted(settings.models)
            }

    def _of_model(self, name: str, base: Corrector) -> bytes | None:
        """Snapshot of the own initial corrector of a model with a table; None: the common one."""
        table = self._given.models[name]
        if table.classes is None and table.train_counts is None:
            return None
        try:
            return self._of_classes(
                table.classes or base.classes, table.train_counts, **table.corrector
            )
        except (ValueError, TypeError) as error:
            raise SettingsError(f"models.{name}: {error}") from None

    def _of_classes(
        self, names: Sequence[Any], counts: Counts | None = None, **changed: Any
    ) -> bytes:
        """Snapshot of a new corrector with other classes, under the settings above."""
        options: Any = {"segments_mb": SEGMENTS_MB} | self._given.corrector | changed
        corrector = Corrector(names, train_counts=counts, **options)
        Messages(corrector.classes, self._given.fields, columns=corrector.segments)
        return corrector.to_bytes()

    def corrector(self) -> Corrector:
        """Create an initial corrector."""
        return Corrector.from_bytes(self.snapshot)

    # -- with prediction sets --------------------------------------------------------------------

    def has_settings(self, model: str) -> bool:
        """Whether a model has a table in the settings."""
        return model in self._models

    def of_model(self, model: str) -> Corrector | None:
        """Own initial corrector of a model; None where it starts with the common one."""
        data = self._models.get(model)
        if data is None and not self._own(model):
            return None
        return self.with_settings(self.snapshot if data is None else data, model)

    def of_classes(self, names: Sequence[Any], model: str) -> Corrector:
        """Initial corrector of a model whose first message names its classes; ValueError where
        these are invalid."""
        return self.with_settings(self._of_classes(names), model)

    def train(self, classes: tuple[Any, ...]) -> NDArray[np.float64] | None:
        """Training prior, shape (m,), of a model with these classes, where known."""
        for data in (self.snapshot, *self._models.values()):
            if data is not None and (corrector := Corrector.from_bytes(data)).classes == classes:
                return corrector.train_prior
        return None

    @property
    def state_bytes(self) -> int:
        """Maximum size of a corrector's snapshot."""
        values = self._given.segments_mb or SEGMENTS_MB if self.segments else 0
        sets = 0 if self._given.sets is None else 10_000 + 16 * len(self.classes)
        return len(self.snapshot) + 200 + int(values * (1 << 20)) + sets

    @property
    def fixed(self) -> dict[str, Any]:
        """What an application that was begun may not change, besides classes and segments."""
        return {}

    @property
    def alike(self) -> bool:
        """Whether all models have the same classes."""
        tables = self._given.models.values()
        return self.classes != NO_CLASSES and all(table.classes is None for table in tables)

    def knows_classes_of(self, model: str) -> bool:
        """Whether the classes of a model are known."""
        return self.classes != NO_CLASSES or self._models.get(model) is not None

    def _own(self, model: str) -> dict[str, Any]:
        table = self._given.models.get(model)
        return {} if table is None else table.corrector

    def settings_of(self, model: str) -> dict[str, Any]:
        """Corrector settings of a model. Without ``prior`` none is known, or that of the snapshot
        with which an application begins."""
        given = self._given.corrector
        settings = self.settings | {"segments_mb": given.get("segments_mb", SEGMENTS_MB)}
        if "prior" in given or not self._knows_mix:
            settings["prior"] = given.get("prior")
        return settings | self._own(model)

    def with_settings(self, snapshot: bytes, model: str = "") -> Corrector:
        """Restore a snapshot under the settings of a model, with its prediction sets."""
        return Corrector.from_bytes(snapshot, None, **self.settings_of(model))

    # -- existing state --------------------------------------------------------------------------

    def beginning_with(self, snapshot: bytes) -> Self:
        """A copy whose common initial corrector is that of existing knowledge, which another
        process, with a snapshot or counts in its settings, may have begun."""
        start = copy(self)
        start.snapshot = snapshot
        return start

    def require_fits(self, begin: Any, live: Iterable[tuple[Name, Any]] = ()) -> None:
        """Raise SnapshotMismatch where existing knowledge is not what the settings would begin.

        Parameters
        ----------
        begin
            The corrector with which it began: its classes, columns and paths, ``train_counts``
            where they are given, and where no model can begin with it any more the snapshot.
        live
            Name and corrector of each lane in use: the classes and ``train_counts`` of the table
            of its model.
        """
        if begin.row_kind != self._given.rows:
            raise SnapshotMismatch(
                f"rows is {begin.row_kind!r} in it, and {self._given.rows!r} here"
            )
        self._require_alike(begin)
        for name, corrector in live:
            if self.has_table(name):
                self._require_own(name[0] or "", corrector)
        if not self._from_snapshot or self._given.has_lanes or self._fitted:
            return
        if (
            self.with_settings(begin.to_bytes()).to_bytes()
            != self.with_settings(self.snapshot).to_bytes()
        ):
            raise SnapshotMismatch(
                "classes_from_file: not the snapshot with which it began; name that one again or"
                " give the classes instead, which keeps what is learned, or start over, which"
                " forgets it"
            )
        self._fitted = True  # from now on somebody may start over, with another one

    def has_table(self, name: Name) -> bool:
        """Whether the model of a lane begins with classes or counts of a table of its own."""
        return self._models.get(name[0] or "") is not None

    def _require_own(self, model: str, corrector: Any) -> None:
        begin, table = self.of_model(model), self._given.models[model]
        assert begin is not None
        if table.classes is not None:
            match(f"models.{model}: classes", corrector.classes, begin.classes)
        if table.train_counts is not None:
            match_counts(begin, corrector, f"models.{model}: ")

    def _require_alike(self, corrector: Any) -> None:
        """The part of :meth:`require_fits` that differs by kind of rows."""
        match("classes", corrector.classes, self.classes)
        match("segments", corrector.segments, self.segments)
        match("monotone", (corrector.monotone,), (bool(self._given.monotone),))
        if self._given.paths is not None:
            paths = tuple(path for path in corrector.paths if path not in FITTED_PATHS)
            match("paths", paths, in_order(self._given.paths))
        if self._counted:
            match_counts(self.corrector(), corrector)

    def changed(self, in_use: Iterable[tuple[Name, Any]]) -> dict[str, Any]:
        """Settings that differ from those of correctors in use, each with its name."""
        changed = dict[str, Any]()
        for name, corrector in in_use:
            changed |= changed_settings(corrector, self.settings_of(name[0] or ""))
        return changed


def start_of(settings: ApplicationSettings, formats: Formats = JSON) -> Start:
    """Create the source of initial correctors for the rows of an application.

    Raises
    ------
    SettingsError, SnapshotMismatch, ValueError
        The settings do not make a corrector.
    """
    start: Start = part(settings.rows, "start").start(settings, formats)
    return start
