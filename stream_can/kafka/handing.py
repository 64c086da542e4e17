"""Handing over: which partitions a worker corrects itself, and which it leaves to the learner."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Literal, NamedTuple

__all__ = ["ALIVE_SECONDS", "Handing", "Unread"]

log = logging.getLogger(__name__)

OLD_SECONDS = 2.0
"""Records that are older by their own times are a backlog, unless there are few."""
FEW_RECORDS, MANY_RECORDS = 50, 1000
"""So many to read are few, or a backlog whatever their times, where no more come in a second."""
RATE_SECONDS = 1.0
"""Seconds over which the rate of a partition is measured."""
ALIVE_SECONDS = 3.0
"""A learner that has written no state for this many seconds, though asked to, is not alive."""

Way = Literal["correct", "hand over", "ask", "wait"]


class Unread(NamedTuple):
    """What there is to read in a partition."""

    records: int
    """Number of records, those that were just read included."""
    first: float
    """Time of the first that was read, in seconds."""
    latest: float
    """Time of the last that was read."""
    end: int
    """Next offset of the partition."""


class _ArrivalRate:
    """Records that come in a second."""

    def __init__(self, end: int, now: float) -> None:
        self._end, self._at, self.value = end, now, 0.0

    def look(self, end: int, now: float) -> float:
        """Look at the end of the partition; return the rate."""
        if now - self._at >= RATE_SECONDS:
            self.value = max(0, end - self._end) / (now - self._at)
            self._end, self._at = end, now
        return self.value


class Handing:
    """Decides for each partition whether a worker corrects its records.

    Records of a partition that is behind are handed over. A partition is corrected again only when
    the learner has answered all of it that was handed over: so outputs keep their order.
    """

    def __init__(self) -> None:
        self._until: dict[int, int] = {}
        """For each partition of which something may be unanswered the next offset after it."""
        self._rates: dict[int, _ArrivalRate] = {}
        self._seen: dict[int, tuple[float, float]] = {}
        """For each partition the latest time that was read, and when that was."""
        self._asked: float | None = None
        """When it was asked whether a learner is alive."""
        self._told = False
        self.waiting = 0
        """Offsets that were handed over and are not answered."""
        self._handed_over = 0
        """Records handed over since the backlog began."""

    def take_over(self, handed_over: Mapping[int, int]) -> None:
        """Take over partitions, with the offset up to which each was handed over, if any."""
        self._until, self._rates, self._seen = dict(handed_over), {}, {}
        self._asked = None

    def note(self, partition: int) -> str:
        """What is committed with the offset of a partition, for :func:`handed_over`."""
        until = self._until.get(partition)
        return "" if until is None else f"{NOTE}{until}"

    def hand_over(self, partition: int, until: int, records: int) -> None:
        """Record that a partition was handed over up to an offset, by so many records."""
        if not self._until:
            log.info("a backlog begins: the learner corrects what is behind, in the order of time")
        self._until[partition] = until
        self._handed_over += records

    def look(self, answered: Mapping[int, int]) -> None:
        """Look at what has been answered: the next offset to learn of each input partition."""
        left = {p: until - answered.get(p, 0) for p, until in self._until.items()}
        self.waiting = sum(n for n in left.values() if n > 0)
        for p in [p for p, n in left.items() if n <= 0]:
            del self._until[p]
        if left and not self._until:
            log.info(
                "the backlog is done: the learner has corrected the %d records that were handed"
                " over", self._handed_over
            )  # fmt: skip
            self._handed_over = 0

    def way(
        self, partition: int, unread: Unread, answered: Mapping[int, int], learner_wrote: float
    ) -> Way:
        """What to do with the records that were read.

        Parameters
        ----------
        answered
            Next offset to learn of each input partition, of the newest state.
        learner_wrote
            When a state was last written, by ``time.monotonic``; 0 where that is unknown.

        Returns
        -------
        To correct them, to hand them over, or to wait: "ask" where a learner must be asked first
        whether it is alive.
        """
        now, behind = time.monotonic(), self._is_behind(partition, unread)
        self.look(answered)
        if partition in self._until:
            return "hand over" if behind else "wait"
        if not behind:
            return "correct"
        if now - learner_wrote < ALIVE_SECONDS:
            if self._told:
                log.info("a learner writes states again: what is behind is handed over to it")
            self._asked, self._told = None, False
            return "hand over"
        if self._asked is None:
            self._asked = now
            return "ask"
        if now - self._asked < ALIVE_SECONDS:
            return "wait"
        if not self._told:
            self._told = True
            log.warning(
                "no learner writes states: records that are behind are corrected by the newest"
                " state, as old as it is"
            )
        return "correct"

    def _is_behind(self, partition: int, unread: Unread) -> bool:
        """Whether there is much to read, or what is old goes by faster than the clock. Records that
        are always as old are no backlog."""
        now = time.monotonic()
        before, at = self._seen.get(partition, (unread.first, now))
        self._seen[partition] = unread.latest, now
        passed = unread.latest - min(unread.first, before)
        rate = self._rates.setdefault(partition, _ArrivalRate(unread.end, now)).look(
            unread.end, now
        )
        old = time.time() - unread.latest > OLD_SECONDS
        if old and passed > OLD_SECONDS + 2 * (now - at):
            return True
        return unread.records > max(FEW_RECORDS if old else MANY_RECORDS, rate)


NOTE = "handed over until "


def handed_over(note: str) -> int | None:
    """The offset of :meth:`Handing.note`; None where there is none."""
    text = note.removeprefix(NOTE)
    return int(text) if note.startswith(NOTE) and text.isdecimal() else None
