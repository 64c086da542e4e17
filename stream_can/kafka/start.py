"""The task of a partition: new, from classes and counts or a snapshot that learned, or stored."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stream_can.app.settings import SettingsError
from stream_can.corrector import Corrector
from stream_can.kafka.schemas import formats
from stream_can.kafka.settings import SEGMENTS_MB, Settings
from stream_can.messages.messages import Messages
from stream_can.method.asking import LabelRequests
from stream_can.method.paths import FITTED_PATHS, in_order
from stream_can.snapshot import MAGIC, match, read
from stream_can.stream.entry import FleetTerms
from stream_can.stream.lanes import Fleet
from stream_can.stream.replica import Replica
from stream_can.stream.sets import without_sets
from stream_can.stream.task import Task

log = logging.getLogger(__name__)

NO_CLASSES = ("",)
"""Of the corrector that a log begins with where each model has classes of its own."""
LANE_BYTES = 100
"""Of a lane in the shared record, with names of some length."""
"""For the values of columns: with them a corrector fits topics that nobody changed."""


class ClassesFile(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON form of ``classes_from_file``."""

    classes: list[str | int | float]
    train_counts: list[float] | dict[str, float] | None = None


class Start:
    """Makes the tasks of partitions that begin or go on.

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
                    names, counts = given_file.classes, counts or given_file.train_counts  # type: ignore[assignment]
            except (OSError, msgspec.DecodeError) as error:
                raise SettingsError(f"classes_from_file: {path}: {error}") from None
        if snapshot is None:
            corrector = Corrector(names or NO_CLASSES, train_counts=counts, **given)
            snapshot = corrector.to_bytes()
        self.snapshot = snapshot
        """Of the corrector to start from."""
        self.classes = corrector.classes
        self.settings: dict[str, Any] = corrector.settings | {"sets": settings.sets}
        """Those in force, as :attr:`Replica.settings`."""
        self.segments = corrector.segments
        self.identity = settings.identity(corrector.classes, corrector.segments)
        """Who the application is."""
        self.formats = formats(settings)
        """What reads the messages."""
        Messages(corrector.classes, settings.fields, columns=corrector.segments)  # refuses columns
        self._given = settings
        self.fleet: FleetTerms | None = None
        """What the log says of all lanes; None where there is one."""
        self._models: dict[str, bytes | None] = {}
        if settings.has_lanes:
            self._models = {
                name: self._of_model(name, corrector) for name in sorted(settings.models)
            }
            changed = {name: own.corrector for name, own in sorted(settings.models.items())}
            self.fleet = FleetTerms(
                settings.max_lanes, {name: own for name, own in changed.items() if own}
            )
        self._counted = counts is not None
        self._partitions = 1
        self._max_bytes: int | None = None

    def _of_model(self, name: str, base: Corrector) -> bytes | None:
        """What a model with a table has to begin with; None: what all have."""
        own = self._given.models[name]
        if own.classes is None and own.train_counts is None:
            return None
        try:
            return self._of_classes(own.classes or base.classes, own.train_counts, **own.corrector)
        except (ValueError, TypeError) as error:
            raise SettingsError(f"models.{name}: {error}") from None

    def _of_classes(
        self, names: Sequence[Any], counts: Sequence[float] | None = None, **changed: Any
    ) -> bytes:
        """The snapshot of a new corrector of other classes, under the settings above."""
        given: Any = {"segments_mb": SEGMENTS_MB} | self._given.corrector | changed
        corrector = Corrector(names, train_counts=counts, **given)
        Messages(corrector.classes, self._given.fields, columns=corrector.segments)
        return corrector.to_bytes()

    @property
    def state_bytes(self) -> int:
        """What is learned takes at most, as a record of the state topic or the learned log."""
        values = self._given.segments_mb or SEGMENTS_MB if self.segments else 0
        lanes = 0 if self.fleet is None else LANE_BYTES * self.fleet.max_lanes
        sets = 0 if self._given.sets is None else 10_000 + 16 * len(self.classes)
        return len(self.snapshot) + 200 + int(values * (1 << 20)) + lanes + sets

    def fit_to(self, partitions: int, max_bytes: int) -> None:
        """Share the memory among so many partitions, keep to what the output topic takes."""
        self._partitions, self._max_bytes = partitions, max_bytes

    def corrector(self) -> Corrector:
        """A new one to start from."""
        return Corrector.from_bytes(self.snapshot)

    def require_fits(self, corrector: Corrector) -> None:
        """Raise SnapshotMismatch where what was learned is of other classes, columns or paths."""
        match("classes", corrector.classes, self.classes)
        match("columns", corrector.segments, self.segments)
        if self._given.paths is not None:
            own = tuple(path for path in corrector.paths if path not in FITTED_PATHS)
            match("paths", own, in_order(self._given.paths))

    def task_options(self) -> dict[str, Any]:
        """Arguments of a `Task` over these topics, but for its Corrector and positions."""
        s = self._given
        return {
            "fields": s.fields,
            "formats": self.formats,
            "labels_topic": s.labels,
            "recent_bytes": int(s.recent_mb * (1 << 20)) // self._partitions,
            "max_bytes": self._max_bytes,
            "errors": s.errors,
            "learn_share": s.learn_share,
            "requests": None if s.ask is None else LabelRequests(s.ask),
            "fleet": Fleet(
                self._models,
                s.only_listed_models,
                self._of_classes if self.classes == NO_CLASSES else None,
            ),
        }

    def fresh(
        self, replica: Replica, next_prediction: int, next_label: int, **changed: Any
    ) -> Task:
        """One that begins at these offsets of input and labels; some of its options changed."""
        return Task(
            replica,
            **self.task_options() | changed,
            next_prediction=next_prediction,
            next_label=next_label,
            count_values=True,
        )

    def stored(self, replica: Replica, positions: bytes, **changed: Any) -> Task:
        """One from its positions; some of its options changed."""
        options = self.task_options() | changed
        return Task.from_bytes(positions, replica=replica, count_values=True, **options)

    def compare_counts(self, corrector: Corrector) -> None:
        """Warn, once, where ``train_counts`` are not those that the running state began with."""
        if not self._counted:
            return
        ours, theirs = self.corrector().train_prior, corrector.train_prior
        if not np.array_equal(ours, theirs):
            self._counted = False
            log.warning(
                "train_counts of the settings are not in force: by them the training prior is %s,"
                " and the running state began with %s, which it keeps; a new application_id begins"
                " anew", *(np.array2string(p, precision=4, threshold=20) for p in (ours, theirs))
            )  # fmt: skip
