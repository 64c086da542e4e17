"""LearnedTime: how far each input partition has been learned, so labels wait for slower ones."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stream_can.learner.order import steady

__all__ = ["LAST_TIMES", "HandedOver", "LearnedTime", "is_backlog", "progress"]

BACKLOG_SECONDS = 10.0
"""Predictions older than this many seconds, by their own times, count as backlog."""
ENDS_SECONDS = 10.0
"""Seconds after which known ends of partitions are asked for again."""
TRIES, PAUSE_SECONDS = 5, 0.2
"""How often an end before a learned offset is asked for: one whose leader was killed may be told to
be older for a moment."""
EVEN_SECONDS = 1.0
"""Partitions whose times differ by no more count as behind as far as they are, unasked."""


STILL_SECONDS, MOST_PASSED_SECONDS = 15.0, 0.5
"""A partition that stands still for so long is not waited for: longer than it takes until another
worker has those of one that was killed. What passes between two looks counts at most as so much,
since it may have taken the learner that long to play."""
ASK_SECONDS = 1.0
"""A partition that stands still for so long is asked what comes next there."""


LAST_TIMES = 9
"""Number of times by which a partition's progress is told."""


LEAP_SECONDS = 30.0
"""The last row may be so much later than those before it, or as 4 of their largest steps."""


def progress(times: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """How far each partition is, by its last row times: the latest of them. One that is ahead of
    those behind it counts as they do, and a last one that leaps does not count yet, so that few
    wrong clocks move nothing. ``inf`` where rows have no times."""
    return {p: _latest(of) for p, of in times.items()}


def _latest(times: Sequence[float]) -> float:
    if not times:
        return math.inf
    steady_times: list[float] = steady(np.array(times)).tolist()
    *earlier, last = steady_times
    if len(earlier) < 2:
        return max([*earlier, last])
    latest = max(earlier)
    step = max(b - a for a, b in itertools.pairwise(earlier))
    return max(latest, last) if last <= latest + max(LEAP_SECONDS, 4 * step) else latest


def is_backlog(latest: float) -> bool:
    """Whether predictions up to this time, in seconds, are backlog."""
    return time.time() - latest > BACKLOG_SECONDS


class HandedOver:
    """Tracks how far the input has been handed over to the learner, which corrects in the order of
    time: it waits for partitions that go on.

    Parameters
    ----------
    ends
        Returns the next offsets of partitions.
    following
        As for :class:`LearnedTime`; ``inf`` where nothing comes.
    """

    def __init__(
        self,
        ends: Callable[[list[int]], Mapping[int, int]],
        following: Callable[[int, int], float | None],
    ) -> None:
        self._ends_of, self._following = ends, following
        self._ends: Mapping[int, int] = {}
        self._asked = self._looked = 0.0
        self._still: dict[int, tuple[int, float]] = {}
        """For each partition its next offset, and for how many seconds it has been that one."""
        self._next: dict[int, tuple[int, float]] = {}
        """For partitions that stood still the offset at which, and the time of what comes there."""

    def until(self, inputs: Mapping[int, int], times: Mapping[int, float]) -> float:
        """Return the time up to which all that goes on has been handed over; ``inf`` where nothing
        does.

        Parameters
        ----------
        inputs
            Next offset of each partition of what came from it.
        times
            Latest time of each partition of what came from it.
        """
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, MOST_PASSED_SECONDS), now
        for p, at in inputs.items():
            seen_at, still_seconds = self._still.get(p, (at, 0.0))
            self._still[p] = at, still_seconds + passed if at == seen_at else 0.0
        if now - self._asked > ENDS_SECONDS or not inputs.keys() <= self._ends.keys():
            self._ends, self._asked = self._ends_of(sorted(inputs)), now
        return min(
            (
                max(times.get(p, -math.inf), self._time_of_next(p, at)) for p, at in inputs.items()
                if at < self._ends.get(p, 0) and self._still[p][1] < STILL_SECONDS
            ),
            default=math.inf,
        )  # fmt: skip

    def _time_of_next(self, p: int, at: int) -> float:
        """Time of what comes at an offset where a partition stands still; ``-inf`` where it is not
        known."""
        if self._still[p][1] < ASK_SECONDS:
            return -math.inf
        if self._next.get(p, (None,))[0] != at:
            time = self._following(p, at)
            self._next[p] = at, -math.inf if time is None else time
        return self._next[p][1]


class LearnedTime:
    """Tracks how much of the input is not learned yet, and how old it is.

    Parameters
    ----------
    ends
        Returns the next offsets of partitions.
    following
        Returns, for a partition and an offset, the time of what comes there, in seconds; None where
        nothing has a time.
    wait
        ``label_wait``: a partition of which nothing was learned for this many seconds while others
        progressed is ignored; no process corrects it.
    """

    def __init__(
        self,
        ends: Callable[[list[int]], Mapping[int, int]],
        following: Callable[[int, int], float | None],
        wait: float,
    ) -> None:
        self._ends, self._following, self._wait = ends, following, wait
        self._moved: dict[int, tuple[int, float]] = {}
        """For each partition the next offset to learn, and since when it has been that one."""
        self._known: Mapping[int, int] = {}
        """Next offsets of the partitions when last asked for: they only grow, unless brokers lose
        some."""
        self._asked = 0.0
        self._before: Mapping[int, int] = {}
        """Next offsets of the partitions at least `ENDS_SECONDS` ago."""
        self._later: Mapping[int, int] = {}
        self._later_at = 0.0
        """What they were meanwhile, and when: the next ``_before``."""

    def within(self, inputs: Mapping[int, int]) -> dict[int, int]:
        """Return these offsets, none beyond the end of its partition."""
        for _ in range(TRIES):
            ends = self._ends_beyond(inputs)
            if all(at <= ends[p] for p, at in inputs.items()):
                break
            time.sleep(PAUSE_SECONDS)
        return {p: min(at, ends[p]) for p, at in inputs.items()}

    def _ends_beyond(self, inputs: Mapping[int, int]) -> Mapping[int, int]:
        """Ends of partitions; asked for where those known are old, or before these offsets."""
        now = time.monotonic()
        old = now - self._asked > ENDS_SECONDS
        if old or any(at > self._known.get(p, -1) for p, at in inputs.items()):
            self._known, self._asked = self._ends(sorted({*self._known, *inputs})), now
        return self._known

    def until(
        self, inputs: Mapping[int, int], times: Mapping[int, float], near: float = 0
    ) -> float:
        """Return the time up to which all input has been learned; ``inf`` where all of it has.

        Parameters
        ----------
        inputs
            Next offset to learn of each partition.
        times
            Latest learned time of each partition.
        near
            A partition counts as up to date if it lacks nothing older than the latest of these
            times minus this many seconds: it may have little traffic.
        """
        now = time.monotonic()
        for p, at in inputs.items():
            if p not in self._moved or self._moved[p][0] != at:
                self._moved[p] = at, now
        ends = self._ends_beyond({p: at + 1 for p, at in inputs.items()})
        if now - self._later_at > ENDS_SECONDS:
            self._before, self._later, self._later_at = self._later, dict(ends), now
        last = max((since for _, since in self._moved.values()), default=0.0)
        unlearned = [
            p for p, at in inputs.items()
            if at < ends.get(p, 0) and last - self._moved[p][1] < self._wait
            and at < self._before.get(p, math.inf)  # whatever its clock says, it keeps up
        ]  # fmt: skip
        furthest = max(times.values(), default=-math.inf)
        if not unlearned:
            return math.inf
        if math.isinf(furthest):  # nothing learned, or no times
            return furthest
        recent = furthest - near
        behind = sorted((times.get(p, -math.inf), p) for p in unlearned)
        slowest = min(recent, behind[0][0])
        if recent - slowest <= EVEN_SECONDS:
            return slowest
        # The slowest that is late decides: others need not be asked, and each costs a request. Of
        # what has no time nobody knows whether it is late.
        for learned, p in behind:
            if learned >= recent:
                break
            if (self._following(p, inputs[p]) or -math.inf) < recent:
                return learned
        return recent
