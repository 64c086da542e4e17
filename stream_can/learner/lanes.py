"""Lanes: the models and versions of a learner, and what each begins with."""

from __future__ import annotations

from collections.abc import Collection

from stream_can.learner import saved
from stream_can.learner.kinds import Id, Kind
from stream_can.learner.lane import ONLY, Lane, Name, most_bytes, predecessor
from stream_can.learner.recent import Recent, RecentIndex
from stream_can.learner.switch import ON, CorrectionSwitch
from stream_can.row_kinds import AnyCorrector, kind_of

__all__ = ["Lanes", "adapter_of", "is_of"]


def adapter_of(corrector: AnyCorrector) -> Kind:
    """Wrap a corrector in its adapter."""
    adapter: Kind = kind_of(corrector).adapter(corrector)
    return adapter


def is_of(lane: Name, named: Name) -> bool:
    """Whether a label for ``named`` can belong to this model and version."""
    return named[0] in (None, lane[0]) and named[1] in (None, lane[1])


class Lanes:
    """The models and versions of a learner.

    Parameters
    ----------
    kind
        Adapter of the initial corrector.
    ask, max_lanes, scores
        As for `Learner`.
    """

    def __init__(self, kind: Kind, ask: float | None, max_lanes: int, scores: bool) -> None:
        self.default = kind
        """The adapter of rows and labels of models that were given none of their own."""
        self.initial = kind.corrector.to_bytes()
        """Snapshot of the corrector with which models begin."""
        self.unused: Kind | None = kind
        """Adapter of the initial corrector, until a model begins."""
        self.starts: dict[Name, Kind] = {}
        """Initial adapters of models that were given their own and have not begun."""
        self.mixed = False
        """Whether models have different classes."""
        self.ask, self.max_lanes, self.scores = ask, max_lanes, scores
        self.switch = ON
        """Whether rows of models are corrected; see :meth:`set_switch`."""
        self.by_name: dict[Name, Lane] = {}
        self.by_serial: dict[int, Lane] = {}
        """Lanes by serial number, by which predictions refer to them: numbers, because the garbage
        collector visits every reference repeatedly."""
        self._of_model: dict[str | None, list[Lane]] = {}
        self.recent = RecentIndex()
        """The kept predictions."""
        self._size = 0
        """Bytes of the correctors."""
        self._newest = -1
        """Serial number of the newest lane."""
        self.dropped = 0
        """Number of lanes dropped beyond ``max_lanes``."""

    def kind_of(self, name: Name) -> Kind:
        """The adapter of a model and version."""
        lane = self.by_name.get(name)
        return lane.kind if lane is not None else self.starts.get(name, self.default)

    def matching(self, name: Name) -> Collection[Lane]:
        """Lanes to which a label for ``name`` can belong."""
        every = self.by_name.values()
        if name == ONLY:
            return every
        of_model = every if name[0] is None else self._of_model.get(name[0], ())
        return [lane for lane in of_model if is_of(lane.name, name)]

    def keeping(self, id: Id | None, name: Name) -> list[tuple[Lane, Recent]]:
        """The kept predictions of an id to which a label for ``name`` can belong, and their
        lanes."""
        return [
            (lane, entry) for entry in self.recent.of(id)
            if is_of((lane := self.by_serial[entry.lane]).name, name)
        ]  # fmt: skip

    def set_start(self, name: Name, kind: Kind) -> bool:
        """Set the adapter with which a model and version begins; return False where it has begun.

        Raises
        ------
        ValueError
            The corrector is of another kind, or has other segments.
        """
        like = self.default
        if type(kind) is not type(like) or kind.segments != like.segments:
            raise ValueError(
                f"corrector: {type(kind.corrector).__name__} with segments {list(kind.segments)},"
                f" expected {type(like.corrector).__name__} with {list(like.segments)}, as the"
                " others"
            )
        if name in self.by_name:
            return False
        self.starts[name] = kind
        self.mixed = self.mixed or kind.classes != like.classes
        return True

    def begin(self, name: Name, number: int) -> Lane:
        """Start a model and version at the row of this number, from its predecessor if it has
        one."""
        own = self.starts.pop(name, None)
        classes = self.default.classes if own is None else own.classes
        others = [lane for lane in self._of_model.get(name[0], ()) if lane.kind.classes == classes]
        before = predecessor(name, {lane.name: lane.kind.corrector for lane in others})
        if before is not None:
            kind = self.by_name[before].kind.successor()
        elif own is not None:
            kind = own
        elif self.unused is not None:
            kind, self.unused = self.unused, None
        else:
            kind = adapter_of(saved.corrector(self.initial))
        lane = Lane(name, kind, self.ask, number, number, before and before[1])
        self.add(lane)
        return lane

    def add(self, lane: Lane) -> None:
        """Add a lane under the next serial number."""
        self._newest += 1
        lane.scores, lane.serial, lane.recent = self.scores, self._newest, self.recent
        self._size += lane.kind.nbytes
        lane.kind.passes = not self.switch.is_on(lane.name[0])
        self.by_name[lane.name] = self.by_serial[lane.serial] = lane
        self._of_model.setdefault(lane.name[0], []).append(lane)

    def set_switch(self, switch: CorrectionSwitch) -> None:
        """Correct the rows of models from now on, or send them as they come."""
        self.switch = switch
        for lane in self.by_name.values():
            lane.kind.passes = not switch.is_on(lane.name[0])

    def drop_excess(self, newest: Lane) -> list[Lane]:
        """Drop the lanes with the oldest last predictions until the others fit; return them."""
        gone = list[Lane]()
        while len(self.by_name) > 1 and not self._fit():
            others = (lane for lane in self.by_name.values() if lane is not newest)
            oldest = min(others, key=lambda lane: lane.last)
            del self.by_name[oldest.name], self.by_serial[oldest.serial]
            self._of_model[oldest.name[0]].remove(oldest)
            self._size -= oldest.kind.nbytes
            gone.append(oldest)
        self.dropped += len(gone)
        return gone

    def _fit(self) -> bool:
        """Whether so many models and versions may be kept."""
        return len(self.by_name) <= self.max_lanes and self._size <= most_bytes(self.max_lanes)
