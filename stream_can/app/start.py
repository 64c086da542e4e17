"""With what the correctors of an application begin: classes and counts, or a snapshot."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can import snapshot as snapshots
from stream_can.app.application import SEGMENTS_MB, ApplicationSettings, Counts
from stream_can.app.settings import SettingsError
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.messages.messages import JSON, Formats, Messages
from stream_can.method.paths import FITTED_PATHS, in_order
from stream_can.method.state import SETS
from stream_can.multilabel import MultiLabelCorrector
from stream_can.snapshot import MAGIC, match, read
from stream_can.sparse import SparseCorrector

__all__ = ["NO_CLASSES", "SeveralStart", "SparseStart", "Start"]

log = logging.getLogger(__name__)

NO_CLASSES = ("",)
"""Classes of the first corrector where each model has classes of its own."""


def without_sets(corrector: Corrector) -> Corrector:
    """The same corrector, which makes no prediction sets."""
    if corrector.sets is None:
        return corrector
    head, arrays = snapshots.decode(corrector.to_bytes())
    del head["sets"]
    kept = {name: array for name, array in arrays.items() if name not in SETS}
    return Corrector.from_bytes(snapshots.encode(head, kept))


class ClassesFile(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON form of ``classes_from_file``."""

    classes: list[str | int | float]
    train_counts: Counts | None = None


class Start:
    """Makes the correctors that begin.

    Parameters
    ----------
    settings
        Either names its classes or the file that has them.
    formats
        What reads the messages.

    Raises
    ------
    SettingsError, SnapshotMismatch, ValueError
        What is given does not make a Corrector.
    """

    def __init__(self, settings: ApplicationSettings, formats: Formats = JSON) -> None:
        names, counts = settings.classes, settings.train_counts
        given: Any = {"segments_mb": SEGMENTS_MB} | settings.corrector
        snapshot: bytes | None = None
        if settings.classes_from_file is not None:
            path = Path(settings.classes_from_file)
            try:
                data = read(path)
                if data.startswith(MAGIC):
                    corrector = Corrector.from_bytes(data, train_counts=counts, **given)
                    corrector = without_sets(corrector)
                    snapshot = corrector.to_bytes()
                else:
                    given_file = msgspec.json.decode(data, type=ClassesFile)
                    names, counts = given_file.classes, counts or given_file.train_counts
            except (OSError, msgspec.DecodeError) as error:
                raise SettingsError(f"classes_from_file: {path}: {error}") from None
        if snapshot is None:
            corrector = Corrector(names or NO_CLASSES, train_counts=counts, **given)
            snapshot = corrector.to_bytes()
        self.snapshot = snapshot
        """Snapshot of the corrector to start from, which makes no sets."""
        self.classes = corrector.classes
        self.settings: dict[str, Any] = corrector.settings | {"sets": settings.sets}
        """Settings in force."""
        self.segments = corrector.segments
        self.formats = formats
        Messages(corrector.classes, settings.fields, columns=corrector.segments)  # refuses columns
        self._given = settings
        self._counted = counts is not None
        self._models: dict[str, bytes | None] = {}
        if settings.has_lanes:
            self._models = {
                name: self._of_model(name, corrector) for name in sorted(settings.models)
            }

    def _of_model(self, name: str, base: Corrector) -> bytes | None:
        """Snapshot that a model with a table begins with; None: the one of all."""
        own = self._given.models[name]
        if own.classes is None and own.train_counts is None:
            return None
        try:
            return self._of_classes(own.classes or base.classes, own.train_counts, **own.corrector)
        except (ValueError, TypeError) as error:
            raise SettingsError(f"models.{name}: {error}") from None

    def _of_classes(
        self, names: Sequence[Any], counts: Counts | None = None, **changed: Any
    ) -> bytes:
        """The snapshot of a new corrector of other classes, under the settings above."""
        given: Any = {"segments_mb": SEGMENTS_MB} | self._given.corrector | changed
        corrector = Corrector(names, train_counts=counts, **given)
        Messages(corrector.classes, self._given.fields, columns=corrector.segments)
        return corrector.to_bytes()

    def corrector(self) -> Corrector:
        """A new one to start from."""
        return Corrector.from_bytes(self.snapshot)

    # -- with prediction sets of its own ---------------------------------------------------------

    def listed(self, model: str) -> bool:
        """Whether a model has a table."""
        return model in self._models

    def of_model(self, model: str) -> Corrector | None:
        """With what a model of known classes begins; None: with what all do."""
        data = self._models.get(model)
        if data is None and not self._own(model):
            return None
        return self.under(self.snapshot if data is None else data, model)

    def of_classes(self, names: Sequence[Any], model: str) -> Corrector:
        """With what a model begins whose classes its first message names; ValueError where they
        are none."""
        return self.under(self._of_classes(names), model)

    def train(self, classes: tuple[Any, ...]) -> NDArray[np.float64] | None:
        """The training prior, shape (m,), of those with these classes, where it is known."""
        for data in (self.snapshot, *self._models.values()):
            if data is not None and (one := Corrector.from_bytes(data)).classes == classes:
                return one.train_prior
        return None

    @property
    def alike(self) -> bool:
        """Whether all models have the same classes."""
        own = self._given.models.values()
        return self.classes != NO_CLASSES and all(one.classes is None for one in own)

    def knows_classes_of(self, model: str) -> bool:
        """Whether the classes of a model are given."""
        return self.classes != NO_CLASSES or self._models.get(model) is not None

    def _own(self, model: str) -> dict[str, Any]:
        own = self._given.models.get(model)
        return {} if own is None else own.corrector

    def settings_of(self, model: str) -> dict[str, Any]:
        """The settings of a model's corrector, ``sets`` apart."""
        own = {name: value for name, value in self.settings.items() if name != "sets"}
        return own | self._own(model)

    def under(self, snapshot: bytes, model: str = "") -> Corrector:
        """The corrector of a snapshot under the settings of a model, with its prediction sets."""
        settings, sets = self.settings_of(model), self._given.sets
        if sets is None:
            return without_sets(Corrector.from_bytes(snapshot, None, **settings))
        return Corrector.from_bytes(snapshot, None, **settings, sets=sets)

    # -- what is there already -------------------------------------------------------------------

    def require_fits(self, corrector: Any) -> None:
        """Raise SnapshotMismatch where what was learned is of other classes, columns or paths."""
        if not isinstance(corrector, Corrector):
            kind = (
                "labels_per_row is several"
                if isinstance(corrector, MultiLabelCorrector)
                else "sparse is true"
            )
            raise SnapshotMismatch(f"{kind} in it, and not here")
        match("classes", corrector.classes, self.classes)
        match("columns", corrector.segments, self.segments)
        if self._given.paths is not None:
            own = tuple(path for path in corrector.paths if path not in FITTED_PATHS)
            match("paths", own, in_order(self._given.paths))

    def compare_counts(self, theirs: NDArray[np.float64]) -> None:
        """Warn, once, where ``train_counts`` are not those that the running state began with.

        Parameters
        ----------
        theirs
            Its training prior, shape (m,).
        """
        if not self._counted:
            return
        ours = self.corrector().train_prior
        if not np.array_equal(ours, theirs):
            self._counted = False
            log.warning(
                "train_counts of the settings are not in force: by them the training prior is %s,"
                " and the running state began with %s, which it keeps; a new application_id starts"
                " over", *(np.array2string(p, precision=4, threshold=20) for p in (ours, theirs))
            )  # fmt: skip


class SeveralStart(Start):
    """The same, of rows of several labels: a `MultiLabelCorrector`, and no models.

    Parameters
    ----------
    settings
        They name the labels.
    train_rows
        How many training rows there were.
    """

    def __init__(self, settings: ApplicationSettings, train_rows: float | None) -> None:
        self._options = settings.corrector
        corrector = MultiLabelCorrector(
            settings.classes or (), train_counts=settings.train_counts, train_rows=train_rows,
            **self._options,
        )  # fmt: skip
        self.snapshot = corrector.to_bytes()
        self.classes, self.segments, self.formats = corrector.labels, (), JSON
        self.settings = {"half_life": corrector.half_life}
        self._given, self._models = settings, {}
        self._counted = settings.train_counts is not None
        Messages(self.classes, settings.fields, several=True)

    def under(self, snapshot: bytes, model: str = "") -> Any:
        """The corrector of a snapshot under the settings."""
        return MultiLabelCorrector.from_bytes(snapshot, **self._options)

    def corrector(self) -> Any:
        """A new one to start from."""
        return MultiLabelCorrector.from_bytes(self.snapshot)

    def require_fits(self, corrector: Any) -> None:
        """Raise SnapshotMismatch where what was learned is of other labels."""
        if not isinstance(corrector, MultiLabelCorrector):
            raise SnapshotMismatch("labels_per_row is several here, and not in it")
        match("classes", corrector.labels, self.classes)

    def train(self, classes: tuple[Any, ...]) -> None:
        """Nothing is said of scores that are not there."""

    def compare_counts(self, theirs: NDArray[np.float64]) -> None:
        """Warn, once, where ``train_counts`` are not those that the running state began with."""
        if self._counted and not np.array_equal(self.corrector().train_shares, theirs):
            self._counted = False
            log.warning(
                "train_counts of the settings are not in force: the running state keeps those that"
                " it began with; another file starts over"
            )


class SparseStart(Start):
    """The same, of very many classes: a `SparseCorrector`, and no models.

    Parameters
    ----------
    settings
        The settings of the application.
    options
        Arguments of the corrector, of which the first say which classes there are.
    """

    def __init__(self, settings: ApplicationSettings, options: dict[str, Any]) -> None:
        given = {name: one for name, one in options.items() if one is not None}
        self._memory = {name: one for name, one in given.items() if name == "memory_mb"}
        corrector = SparseCorrector(given.pop("classes", "any"), **given, **settings.corrector)
        self.snapshot, self._fits = corrector.to_bytes(), _fits(corrector)
        self.classes, self.segments, self.formats = (), (), JSON
        self.settings = {"half_life": corrector.half_life}
        self._given, self._models, self._counted = settings, {}, False

    def under(self, snapshot: bytes, model: str = "") -> Any:
        """The corrector of a snapshot."""
        return SparseCorrector.from_bytes(snapshot, **self._memory)

    def corrector(self) -> Any:
        """A new one to start from."""
        return self.under(self.snapshot)

    def require_fits(self, corrector: Any) -> None:
        """Raise SnapshotMismatch where what was learned is of other classes or half_life."""
        if not isinstance(corrector, SparseCorrector):
            raise SnapshotMismatch("sparse is false in it, and true here")
        for name, theirs in _fits(corrector).items():
            if theirs != self._fits[name]:
                raise SnapshotMismatch(f"{name}: {theirs} in it, {self._fits[name]} here")

    def train(self, classes: tuple[Any, ...]) -> None:
        """Nothing is filled in."""

    def compare_counts(self, theirs: NDArray[np.float64]) -> None:
        """There are none."""


def _fits(corrector: SparseCorrector) -> dict[str, Any]:
    """What has to be the same for one to go on as another."""
    return {
        "max_classes": corrector.m,
        "half_life": corrector.half_life,
        "numbers for classes": corrector.names is None,
    }
