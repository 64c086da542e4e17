"""Memory: the predictions that wait for their labels, and the lanes that made them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from stream_can.learner.events import EventLog
from stream_can.learner.kinds import Id
from stream_can.learner.lane import Call, Lane, Name
from stream_can.learner.lanes import Lanes, adapter_of
from stream_can.learner.recent import Recent, forget_oldest, prediction_of
from stream_can.row_kinds import AnyCorrector

__all__ = ["LearnerMemory"]


class LearnerMemory:
    """The recent predictions of all models and versions, within a bound.

    Parameters
    ----------
    lanes
        The models and versions.
    recent_mb
        As for `Learner`.
    """

    def __init__(self, lanes: Lanes, recent_mb: float) -> None:
        self.lanes, self.recent_mb = lanes, recent_mb
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

    def lane_of(self, name: Name, call: Call) -> Lane:
        """The lane of a model and version; where it is new, others may have to go."""
        lane = self.lanes.by_name.get(name)
        if lane is not None:
            return lane
        for active in call.active:
            active.run(call)
        lane = self.lanes.begin(name, self.number)
        if gone := {dropped.serial: dropped for dropped in self.lanes.drop_excess(lane)}:
            if self.log is not None:
                self.log.dropped.update(gone)
            kept = list[Recent]()
            for entry in self.order:
                if entry.lane in gone:
                    self.lanes.recent.forget(entry, gone[entry.lane].requests)
                else:
                    kept.append(entry)
            self.keep_only(kept)
        return lane

    def set_start(self, name: Name, corrector: AnyCorrector) -> None:
        """Set the corrector with which a model and version begins, see :meth:`Learner.start`."""
        if self.lanes.set_start(name, adapter_of(corrector)) and self.log is not None:
            self.log.starts.append((len(self.log.rows), name, corrector.to_bytes()))

    def add(self, named: Sequence[Recent], size: int) -> None:
        """Keep predictions with an id, and drop the oldest beyond the bound."""
        self.order += named
        self.size += size
        if self.size > self.bound:
            self.drop_oldest()

    def keep_one(self, lane: Lane, id: Id | None, blob: bytes, time: float) -> None:
        """Keep the prediction of a row that was corrected alone."""
        entry = prediction_of(id, self.number, None, blob, time, lane.serial)
        lane.last = self.number
        self.number += 1
        if id is not None:
            self.lanes.recent.keep([entry], lane.requests)
            self.add((entry,), entry.size)
        if self.log is not None:
            self.log.rows.append(entry)

    def drop_oldest(self) -> None:
        """Drop the oldest predictions until the rest fits."""
        self._forget(self.bound, self.number)

    def forget_before(self, number: int) -> None:
        """Drop the predictions that are numbered below."""
        self._forget(0, number)

    def _forget(self, bound: int, number: int) -> None:
        lanes = self.lanes
        self.size = forget_oldest(
            lanes.recent, self.order, self.size, bound, number, lanes.by_serial
        )

    def keep_only(self, entries: Iterable[Recent]) -> None:
        """Keep only these of the predictions."""
        self.order = deque(entries)
        self.size = sum(entry.size for entry in self.order)

    def abandon(self, call: Call) -> None:
        """Discard the predictions of an interrupted call."""
        gone = {entry.number for lane in call.active for entry in lane.abandon()}
        self.keep_only(entry for entry in self.order if entry.number not in gone)
        self.log = None
