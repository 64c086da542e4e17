"""What processes learn together, as one of them holds it: the fold of a log up to an offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.messages.naming import UNNAMED, LaneName
from stream_can.messages.records import Source, place
from stream_can.stream import entry
from stream_can.stream.sets import sets_under
from stream_can.stream.terms import Terms
from stream_can.trust.sets import PredictionSets
from stream_can.version import __version__

__all__ = ["Begun", "BegunAnew", "LeftOut", "Replica"]

HOUR_MS = 3_600_000
MOST_STARTS = 1000
"""So many lanes that have not begun are remembered as what they would begin with."""


class BegunAnew(StreamCANError):
    """The log of a task began anew: what the task holds belongs to a corrector that is gone."""


class LeftOut(NamedTuple):
    """Why an entry taught nothing."""

    reason: str
    """With its place."""
    foreign: bool
    """Whether it cannot have come from this application, or is none at all."""


class Begun(msgspec.Struct):
    """A lane of the log."""

    corrector: Corrector
    begun: int
    """The offset of the entry by which it began."""
    last: int
    """The offset of its last entry."""
    after: str | None = None
    """The version that it went on from, where there was one."""
    labels: float = 0.0
    """Its labels, each counting less the more labels of the model came after it."""
    sets: PredictionSets | None = None
    """Of its rows, where the log says so."""


class Replica:
    """A corrector that learns by the entries of a log alone, so that equal offsets are equal bits.

    Where the log has lanes, there is a corrector for each, and the one that the log began with
    learns nothing: lanes begin with it that have nothing else to begin with. All but the
    correctors, too, is a function of the entries below the offset.

    Parameters
    ----------
    corrector
        What the entries below an offset have made; None where the log has not started.
    offset
        That offset.
    terms
        What else they have said.
    lanes
        The lanes, that with the oldest last entry first.
    times
        When lanes have begun of late: timestamps of their first records, in milliseconds.
    sets
        Prediction sets of the one without a name, where the log says so.
    """

    def __init__(
        self,
        corrector: Corrector | None = None,
        offset: int = 0,
        terms: Terms | None = None,
        lanes: Mapping[LaneName, Begun] = MappingProxyType({}),
        times: Iterable[int] = (),
        sets: PredictionSets | None = None,
    ) -> None:
        self._corrector, self._sets = corrector, sets
        self.offset = offset
        """All entries below it are folded, and none from it on."""
        self.terms = terms or Terms.of(corrector)
        self._lanes, self.times = dict(lanes), list(times)
        self._versions: dict[str, set[str]] = {}
        for name in lanes:
            self._versions.setdefault(name.model, set()).add(name.version)
        self._starts: dict[LaneName, tuple[int, bytes | None, Begun]] = {}
        self.dropped = 0
        """Lanes that were dropped here because there were more than ``max_lanes``."""
        self.newest: int | None = None
        """The timestamp of the newest entry folded here, in milliseconds."""
        self.foreign = 0
        """Records that were none of ours, of those that were folded here."""

    @property
    def started(self) -> bool:
        """Whether there is a corrector."""
        return self._corrector is not None

    @property
    def settings(self) -> dict[str, Any]:
        """Those in force: of the corrector, and the share that prediction sets keep."""
        return self.corrector.settings | {"sets": self.terms.sets}

    @property
    def corrector(self) -> Corrector:
        """What was learned so far; another object once a log has begun anew or changed settings."""
        assert self._corrector is not None, "the log has not started"
        return self._corrector

    # ---- lanes

    @property
    def lanes(self) -> dict[LaneName, Begun]:
        """Those that have begun, that with the oldest last entry first; may be called anywhere."""
        return dict(self._lanes)

    def lane(self, name: LaneName) -> Begun | None:
        """A lane that has begun."""
        return self._lanes.get(name)

    def sets(self, name: LaneName = UNNAMED) -> PredictionSets | None:
        """What makes the prediction sets of a lane that has begun, where the log says so."""
        return self._sets if name == UNNAMED else self._lanes[name].sets

    def classes(self, name: LaneName) -> tuple[Any, ...]:
        """Those of a lane that has begun, in the order of its columns."""
        return self._lanes[name].corrector.classes

    def start(self, name: LaneName, fresh: bytes | None = None) -> Begun:
        """What a lane would begin with now: a function of the offset, the name and ``fresh``.

        That is the successor of the version of the same model that has most labels of late, and
        ``fresh``'s classes; without such a one, ``fresh``; without that, what the
        log began with. Under the settings that the log has for the model.

        Raises
        ------
        SnapshotMismatch
            ``fresh`` is no corrector's snapshot.
        """
        known = self._starts.get(name)
        if known is not None and known[:2] == (self.offset, fresh):
            return known[2]
        own = None if fresh is None else Corrector.from_bytes(fresh)
        before = [
            version
            for version in self.versions(name.model)
            if own is None or own.classes == self.classes(LaneName(name.model, version))
        ]
        after = before[0] if before else None
        if after is not None:
            corrector = self._lanes[LaneName(name.model, after)].corrector.successor()
        else:
            corrector = own or self.corrector
        own = self._under_terms(name, corrector)
        found = Begun(own, -1, -1, after, sets=sets_under(self.terms.sets, own))
        if len(self._starts) >= MOST_STARTS:
            self._starts.clear()
        self._starts[name] = self.offset, fresh, found
        return found

    def versions(self, model: str) -> list[str]:
        """Those of a model that have begun, that with most labels of late first."""

        def weight(version: str) -> tuple[float, int]:
            lane = self._lanes[LaneName(model, version)]
            return lane.labels, lane.begun

        return sorted(self._versions.get(model, ()), key=weight, reverse=True)

    def _under_terms(self, name: LaneName, corrector: Corrector) -> Corrector:
        """The same, as a corrector of its own, under the settings of a lane."""
        fleet = self.terms.fleet
        own = {} if fleet is None else fleet.models.get(name.model, {})
        settings: dict[str, Any] = self.corrector.settings | own
        return Corrector.from_bytes(corrector.to_bytes(), None, **settings)

    def new_lanes(self, time: int) -> int:
        """How many lanes have begun in the hour before a timestamp, or later."""
        return sum(begun > time - HOUR_MS for begun in self.times)

    def _teach(self, mark: entry.LaneMark, one: entry.LogEntry, record: Source) -> LeftOut | None:
        """Let a lane learn an entry; begin it, where it has not."""
        name, fleet = mark.name, self.terms.fleet
        if name == UNNAMED or fleet is None:
            raise entry.BadEntry("an entry of a lane, in a log that has none")
        known = self._lanes.get(name)
        if mark.begun >= 0 and (known is None or known.begun != mark.begun):
            return LeftOut(f"{place(record)}: of before lane {name} was dropped", False)
        try:
            if mark.kept is not None:
                kept = self._under_terms(name, Corrector.from_bytes(mark.kept))
                sets = sets_under(self.terms.sets, kept)
                known = Begun(kept, record.offset, record.offset, sets=sets)
            elif known is None:
                known = self.start(name, mark.fresh)
                if len(known.corrector.classes) < 2:
                    raise entry.BadEntry("it does not say which classes it has")
                known = msgspec.structs.replace(known, begun=record.offset)
            entry.fold(known.corrector, one, known.sets)
        except (entry.BadEntry, SnapshotMismatch) as error:
            if mark.begun >= 0:
                raise
            return LeftOut(f"{place(record)}: lane {name} began otherwise: {error}", False)
        known.last = record.offset
        if name not in self._lanes and mark.kept is None:
            self._starts.pop(name, None)
            late = [t for t in self.times if t > mark.time - HOUR_MS]
            self.times = [*late, mark.time][-fleet.max_lanes :]
        self._lanes.pop(name, None)
        self._lanes[name] = known
        self._versions.setdefault(name.model, set()).add(name.version)
        self._count(name, sum(len(part.offsets) // 8 for part in one.parts))
        while len(self._lanes) > fleet.max_lanes:
            self._drop(next(iter(self._lanes)))
        return None

    def _count(self, name: LaneName, n: int) -> None:
        """So many labels came for a lane: of its model, older ones count less."""
        lane = self._lanes[name]
        decay: float = 0.5 ** (1 / lane.corrector.settings["half_life"])
        if n == 0:
            return
        for version in self._versions[name.model]:
            self._lanes[LaneName(name.model, version)].labels *= decay**n
        lane.labels += n if decay == 1 else (1 - decay**n) / (1 - decay)

    def _drop(self, name: LaneName) -> None:
        del self._lanes[name]
        self._versions[name.model].discard(name.version)
        if not self._versions[name.model]:
            del self._versions[name.model]
        self.dropped += 1

    @property
    def epoch(self) -> int:
        """The offset behind the entry with which the log last began anew; 0 where it never did.

        Whoever holds something that was made with the corrector (rows under way, sums, receipts)
        compares it with that of then: another one means that all of it belongs to a corrector that
        is gone, perhaps of other classes. A changed setting is no new epoch.
        """
        return self.terms.epoch

    def fold(self, record: Source) -> LeftOut | None:
        """Learn the next entry of the log.

        Returns
        -------
        Why it was left out, or None where it counts. What was made with a corrector that has been
        replaced before it was committed teaches its successor nothing: its columns may be those of
        other classes. What is no entry of this application teaches nobody anything.

        Raises
        ------
        NewerEntry
            It needs a newer release; the message says where it lies.
        """
        left = None
        try:
            one = entry.read(record.value, self.terms.app, self.terms.identity)
            if one.parts and one.folded_to < self.epoch:
                left = LeftOut(f"{place(record)}: of before the log began anew", False)
            else:
                left = self._learn(one, record)
        except entry.BadEntry as error:
            left = LeftOut(f"{place(record)}: {error}", True)
            self.foreign += 1
        except entry.NewerEntry as error:
            raise entry.NewerEntry(f"{place(record)}: {error}") from None
        self.offset = record.offset + 1
        if left is None or not left.foreign:
            self.newest = record.timestamp
        return left

    def _learn(self, one: entry.LogEntry, record: Source) -> LeftOut | None:
        terms = self.terms
        if terms.app is not None and one.app is None:
            raise entry.BadEntry("an entry that does not say whose it is")
        if one.lane is not None and self.started:
            return self._teach(one.lane, one, record)
        try:
            corrector = entry.fold(self._corrector, one, self._sets)
            after = terms.after(one, record, corrector)
            sets = None if corrector is None else sets_under(after.sets, corrector, self._sets)
        except entry.BadEntry as error:
            if one.app is None or one.release == __version__:
                raise
            raise entry.newer(one.release, str(error)) from None
        self._corrector, self.terms, self._sets = corrector, after, sets
        if self.terms.epoch != terms.epoch:
            self._lanes, self._versions, self.times = {}, {}, []
        elif one.settings is not None:
            for name, lane in self._lanes.items():
                lane.corrector = self._under_terms(name, lane.corrector)
                lane.sets = sets_under(after.sets, lane.corrector, lane.sets)
        return None

    def advance(self, offset: int) -> None:
        """No entry lies before this offset: what lay there ended transactions, or was given up."""
        self.offset = max(self.offset, offset)
