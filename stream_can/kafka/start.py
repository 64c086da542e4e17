"""The task of a partition: new, from classes and counts or a snapshot that learned, or stored."""

from __future__ import annotations

from typing import Any

from stream_can.app.application import SEGMENTS_MB
from stream_can.app.start import NO_CLASSES, Start
from stream_can.kafka.schemas import formats
from stream_can.kafka.settings import Settings
from stream_can.method.asking import LabelRequests
from stream_can.stream.entry import FleetTerms
from stream_can.stream.lanes import Fleet
from stream_can.stream.replica import Replica
from stream_can.stream.task import Task

LANE_BYTES = 100
"""Of a lane in the shared record, with names of some length."""


class TaskStart(Start):
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

    _given: Settings

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, formats(settings))
        self.identity = settings.identity(self.classes, self.segments)
        """Who the application is."""
        self.fleet: FleetTerms | None = None
        """What the log says of all lanes; None where there is one."""
        if settings.has_lanes:
            changed = {name: own.corrector for name, own in sorted(settings.models.items())}
            self.fleet = FleetTerms(
                settings.max_lanes, {name: own for name, own in changed.items() if own}
            )
        self._partitions = 1
        self._max_bytes: int | None = None

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
