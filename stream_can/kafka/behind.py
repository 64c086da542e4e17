"""How far all partitions of the input are learned: labels wait for those that are behind."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

__all__ = ["Behind", "is_backlog"]

BACKLOG_SECONDS = 10.0
"""Predictions older than this, by their own time, are of a backlog."""


def is_backlog(latest: float) -> bool:
    """Whether predictions up to this time, in seconds, are of a backlog."""
    return time.time() - latest > BACKLOG_SECONDS


class Behind:
    """How much of the input is not learned, and how old that is.

    Parameters
    ----------
    ends
        Asks for the next offset of partitions.
    before
        Asks for an offset of partitions from which on nothing is older than a time, in seconds.
    wait
        ``label_wait``: a partition of which nothing was learned for so many seconds, while
        something was of others, is not waited for, since nobody corrects it.
    """

    def __init__(
        self,
        ends: Callable[[list[int]], Mapping[int, int]],
        before: Callable[[list[int], float], Mapping[int, int | None]],
        wait: float,
    ) -> None:
        self._ends, self._before, self._wait = ends, before, wait
        self._moved: dict[int, tuple[int, float]] = {}
        """The next offset to be learned of each, and since when it is that one."""

    def until(
        self, inputs: Mapping[int, int], times: Mapping[int, float], near: float = 0
    ) -> float:
        """The time before which all that was to be corrected has been learned; ``inf`` where that
        is all there is.

        Parameters
        ----------
        inputs
            Of each partition the next offset to be learned.
        times
            And the latest time that was.
        near
            One that lacks nothing older than the latest of these less so many seconds is not
            behind: it may have little traffic.
        """
        now = time.monotonic()
        for p, at in inputs.items():
            if p not in self._moved or self._moved[p][0] != at:
                self._moved[p] = at, now
        ends = self._ends(list(inputs))
        last = max((since for _, since in self._moved.values()), default=0.0)
        left = [
            p for p, at in inputs.items()
            if at < ends.get(p, 0) and last - self._moved[p][1] < self._wait
        ]  # fmt: skip
        furthest = max(times.values(), default=-math.inf)
        if not left:
            return math.inf
        if math.isinf(furthest):  # nothing, or no times
            return furthest
        recent = furthest - near
        before = self._before(left, recent)

        def is_behind(p: int) -> bool:
            offset = before.get(p)
            return inputs[p] < (ends[p] if offset is None else offset)

        return min([recent, *(times.get(p, -math.inf) for p in left if is_behind(p))])
