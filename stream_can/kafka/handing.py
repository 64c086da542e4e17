"""Handing over: which partitions a worker corrects itself, and which it leaves to the learner."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Literal

from stream_can.app.status import Backlog
from stream_can.kafka.throughput import FEWEST_SECONDS, Throughput
from stream_can.kafka.unread import MANY_RECORDS, Unread, UnreadRecords

__all__ = ["ALIVE_SECONDS", "ANSWER_SECONDS", "Handing", "handed_over"]

log = logging.getLogger(__name__)

ALIVE_SECONDS, ANSWER_SECONDS = 3.0, 20.0
"""A learner that wrote a state so many seconds ago is alive; one that writes none for so many after
it was asked is not: it may be starting, or taking over from another, on a busy machine."""

TELL_SECONDS = 30.0
"""Seconds between two log lines that say how far the learner is with a backlog."""

Way = Literal["correct", "hand over", "ask", "wait"]


class Handing:
    """Decides for each partition whether a worker corrects its records.

    Records of a partition that is behind are handed over. A partition is corrected again only when
    the learner has answered all of it that was handed over: so outputs keep their order.
    """

    def __init__(self) -> None:
        self._until: dict[int, int] = {}
        """For each partition of which something may be unanswered the next offset after it."""
        self._unread = UnreadRecords()
        self._asked: float | None = None
        """When it was asked whether a learner is alive."""
        self._told = False
        self._first: dict[int, int] = {}
        """For such partitions the first offset that was handed over, where that was here."""
        self._done: dict[int, int] = {}
        """Next offset to be answered of such partitions."""
        self._begun = False
        """Whether the log has said that there is a backlog."""
        self._reset: set[int] = set()
        """Partitions of which states say nothing, or count in other offsets, until some of these is
        learned: the input starts over, or what was sent of it was deleted."""
        self._passed = set[int]()
        """Partitions of which records behind those handed over were corrected by a worker."""
        self._wrote = 0.0
        """When a state was last written."""
        self._ends: dict[int, int] = {}
        """Next offset of each partition when last read."""
        self._throughput = Throughput()
        """Of the learner, each second since the same partitions are handed over."""
        self._tell_at = 0.0

    def take_over(
        self, lags: Mapping[int, int], handed_over: Mapping[int, int], reset: Collection[int],
        passed: Collection[int] = (),
    ) -> None:  # fmt: skip
        """Take over partitions.

        Parameters
        ----------
        lags
            Number of records to read in each partition.
        handed_over
            Offset up to which a partition was handed over, if it was.
        reset
            Partitions whose offsets start over: what was handed over of them may be unanswered,
            and a state counts in other offsets until it has learned some of these. So their first
            records are handed over, behind it.
        passed
            Partitions of which a worker corrected records behind those handed over.
        """
        self._until, self._ends, self._passed = dict(handed_over), {}, set(passed)
        self._unread = UnreadRecords(lags)
        self._reset = set(reset)
        self._asked, self._first, self._done, self._begun = None, {}, {}, False
        self._throughput.clear()

    def note(self, partition: int) -> str:
        """What is committed with the offset of a partition, for :func:`handed_over`."""
        until = self._until.get(partition)
        return "" if until is None else f"{NOTE}{until}"

    @property
    def waiting(self) -> int:
        """Offsets that were handed over and are not answered."""
        unanswered = (
            until - self._done.get(p, self._first.get(p, until)) for p, until in self._until.items()
        )
        return sum(n for n in unanswered if n > 0)

    def hand_over(self, partition: int, first: int, until: int) -> None:
        """Record that a partition was handed over from an offset up to another."""
        if partition not in self._until:
            self._throughput.clear()
            self._first[partition] = first
        self._until[partition] = until
        self._passed.discard(partition)
        if not self._begun:
            self._begin("a backlog begins")

    def corrected(self, partition: int) -> None:
        """Record that records of a partition were corrected here, as ``backlog = "lagging"`` does
        also behind what was handed over: states count them then."""
        if partition in self._until:
            self._passed.add(partition)

    def _begin(self, event: str) -> None:
        """Say in the log that there is a backlog."""
        self._begun, self._tell_at = True, time.monotonic() + TELL_SECONDS
        log.info("%s: the learner corrects what is behind, in the order of time", event)

    def look(self, answered: Mapping[int, int], learner_wrote: float) -> None:
        """Look at what has been answered: the next offset to learn of each input partition of
        which one is known; and when a state was last written."""
        self._wrote = learner_wrote
        if not self._until:
            return
        done = self._done = {p: self._answered(p, answered) for p in self._until}
        for p in [p for p, until in self._until.items() if done[p] >= until]:
            del self._until[p], done[p]
            self._first.pop(p, None)
            self._throughput.clear()
        if not self._until:
            if self._begun:
                log.info("the backlog is done: the learner has corrected what was handed over")
            self._begun = False
            return
        if not self._begun:
            self._begin(f"a backlog goes on, {self.waiting:,} records")
        now = time.monotonic()
        if not self._until.keys() <= self._ends.keys():  # after a take-over
            return
        if now - self._throughput.looked_at < 1.0:
            return
        self._throughput.note(sum(done.values()), sum(self._ends[p] for p in self._until))
        if now >= self._tell_at:
            self._tell_at = now + TELL_SECONDS
            self._tell()

    def _answered(self, partition: int, answered: Mapping[int, int]) -> int:
        """Next offset to be answered of a partition."""
        at, first = answered.get(partition), self._first.get(partition, 0)
        if at is None or (at > self._until[partition] and partition not in self._passed):
            # Nothing was sent of what comes behind: the state counts in other offsets.
            self._reset.add(partition)
            return first
        self._reset.discard(partition)
        return max(at, first)

    @property
    def backlog(self) -> Backlog | None:
        """How much waits for the learner, and how fast it and the input are; None without."""
        if not self.waiting:
            return None
        if time.monotonic() - self._wrote > FEWEST_SECONDS:  # what writes no states has no speed
            return Backlog(self.waiting)
        return self._throughput.of(self.waiting)

    def _tell(self) -> None:
        backlog = self.backlog
        if backlog is None or backlog.done is None or backlog.waiting < MANY_RECORDS:
            return
        says = (
            f"{backlog.waiting:,} records of the backlog are left: the learner corrects"
            f" {backlog.done:,.0f} a second, and {backlog.came:,.0f} come"
        )
        if backlog.grows:
            log.warning('%s, so it cannot keep up; backlog = "lagging" spreads the work', says)
        else:
            log.info("%s", says)

    def way(
        self, partition: int, unread: Unread, answered: Mapping[int, int], learner_wrote: float
    ) -> Way:
        """What to do with the records that were read.

        Parameters
        ----------
        answered
            Next offset to learn of each input partition, of the newest state: `Index.answered`.
        learner_wrote
            When a state was last written, by ``time.monotonic``; 0 where that is unknown.

        Returns
        -------
        To correct them, to hand them over, or to wait: "ask" where a learner must be asked first
        whether it is alive.
        """
        self.look(answered, learner_wrote)
        self._unread.count(partition, unread.records)
        behind = self._unread.is_behind(partition, unread, self.waiting) or partition in self._reset
        self._ends[partition] = unread.end
        way = self._way(partition, behind=behind)
        if way in ("correct", "hand over"):
            self._unread.count(partition, unread.records - len(unread.times))
        return way

    def _way(self, partition: int, *, behind: bool) -> Way:
        now = time.monotonic()
        if partition in self._until:
            return "hand over" if behind else "wait"
        if not behind:
            return "correct"
        answers = self._asked is not None and self._wrote > self._asked
        if answers or now - self._wrote < ALIVE_SECONDS:
            if self._told:
                log.info("a learner writes states again: what is behind is handed over to it")
            self._asked, self._told = None, False
            return "hand over"
        if self._asked is None:
            self._asked = now
            return "ask"
        if now - self._asked < ANSWER_SECONDS:
            return "wait"
        if not self._told:
            self._told = True
            log.warning(
                "no learner writes states: records that are behind are corrected by the newest"
                " state, as old as it is"
            )
        return "correct"


NOTE = "handed over until "


def handed_over(note: str) -> int | None:
    """The offset of :meth:`Handing.note`; None where there is none."""
    text = note.removeprefix(NOTE)
    return int(text) if note.startswith(NOTE) and text.isdecimal() else None
