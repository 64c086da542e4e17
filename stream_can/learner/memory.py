"""Memory: the predictions that wait for their labels, and the correctors that made them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from stream_can.learner.call import Call
from stream_can.learner.events import EventLog
from stream_can.learner.kinds import Id
from stream_can.learner.model_name import Name
from stream_can.learner.model_version import ModelVersion
from stream_can.learner.model_versions import ModelVersions, adapter_of
from stream_can.learner.recent import Recent, forget_oldest, prediction_of
from stream_can.row_kinds import AnyCorrector


class LearnerMemory:
    """The recent predictions of all models and versions, within a bound.

    Parameters
    ----------
    versions
        The models and versions.
    recent_mb
        As for `Learner`.
    """

    def __init__(self, versions: ModelVersions, recent_mb: float) -> None:
        self.versions, self.recent_mb = versions, recent_mb
        self.bound = int(recent_mb * (1 << 20))
        """Maximum bytes of the predictions."""
        self.order: deque[Recent] = deque()
        """The latest predictions with an id, oldest first."""
        self.size = 0
        """Their bytes."""
        self.number = 0
        """Number of the next prediction."""
        self.log: EventLog | None = None
        """Events since they were last taken, where they are recorded."""

    @property
    def oldest(self) -> int:
        """Number of the oldest kept prediction; of the next one where none is kept."""
        return self.order[0].number if self.order else self.number

    def version_of(self, name: Name, call: Call) -> ModelVersion:
        """The corrector of a model and version; where it is new, others may have to go."""
        version = self.versions.by_name.get(name)
        if version is not None:
            return version
        for active in call.active:
            active.run(call)
        version = self.versions.begin(name, self.number)
        if dropped_versions := {
            dropped.serial: dropped for dropped in self.versions.drop_excess(version)
        }:
            if self.log is not None:
                self.log.dropped.update(dropped_versions)
            remaining = list[Recent]()
            for entry in self.order:
                if entry.lane in dropped_versions:
                    self.versions.recent.forget(entry, dropped_versions[entry.lane].requests)
                else:
                    remaining.append(entry)
            self.keep_only(remaining)
        return version

    def set_start(self, name: Name, corrector: AnyCorrector) -> None:
        """Set the corrector with which a model and version begins, see :meth:`Learner.start`."""
        if self.versions.set_start(name, adapter_of(corrector)) and self.log is not None:
            self.log.starts.append((len(self.log.rows), name, corrector.to_bytes()))

    def extend(self, entries: Sequence[Recent], size: int) -> None:
        """Keep predictions with an id, and drop the oldest beyond the bound."""
        self.order += entries
        self.size += size
        if self.size > self.bound:
            self.drop_oldest()

    def keep_one(self, version: ModelVersion, id: Id | None, blob: bytes, time: float) -> None:
        """Keep the prediction of a row that was corrected alone."""
        entry = prediction_of(id, self.number, None, blob, time, version.serial)
        version.last = self.number
        self.number += 1
        if id is not None:
            self.versions.recent.keep([entry], version.requests)
            self.extend((entry,), entry.size)
        if self.log is not None:
            self.log.rows.append(entry)

    def drop_oldest(self) -> None:
        """Drop the oldest predictions until the rest fits."""
        self._forget(self.bound, self.number)

    def forget_before(self, number: int) -> None:
        """Drop the predictions that are numbered below."""
        self._forget(0, number)

    def _forget(self, bound: int, number: int) -> None:
        versions = self.versions
        self.size = forget_oldest(
            versions.recent, self.order, self.size, bound, number, versions.by_serial
        )

    def keep_only(self, entries: Iterable[Recent]) -> None:
        """Keep only these of the predictions."""
        self.order = deque(entries)
        self.size = sum(entry.size for entry in self.order)

    def abandon(self, call: Call) -> None:
        """Discard the predictions of an interrupted call."""
        unfinished = {entry.number for version in call.active for entry in version.abandon()}
        self.keep_only(entry for entry in self.order if entry.number not in unfinished)
        self.log = None
