"""How far all partitions of the input are learned: labels wait for those that are behind."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

__all__ = ["Behind"]

ASK_SECONDS = 1.0
"""How long an answer is good enough, as long as no label is ahead of it."""


class Behind:
    """What of the input is not learned, and how old that is.

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
        self._until, self._asked = math.inf, -math.inf
        self._moved: dict[int, tuple[int, float]] = {}
        """The next offset to be learned of each, and since when it is that one."""

    def until(self, inputs: Mapping[int, int], times: Mapping[int, float], label: float) -> float:
        """The time before which all that was to be corrected has been learned; ``inf`` where that
        is all there is.

        Parameters
        ----------
        inputs
            Of each partition the next offset to be learned.
        times
            And the latest time that was.
        label
            The time of the latest label that waits.
        """
        now = time.monotonic()
        for p, at in inputs.items():
            if self._moved.get(p, (None,))[0] != at:
                self._moved[p] = at, now
        enough = label <= self._until + self._wait < math.inf
        if not enough or now - self._asked > ASK_SECONDS:
            self._asked, self._until = now, self._find(inputs, times)
        return self._until

    def _find(self, inputs: Mapping[int, int], times: Mapping[int, float]) -> float:
        ends = self._ends(list(inputs))
        last = max((when for _, when in self._moved.values()), default=0)
        left = [
            p for p, at in inputs.items()
            if at < ends.get(p, 0) and last - self._moved[p][1] < self._wait
        ]  # fmt: skip
        furthest = max(times.values(), default=-math.inf)
        if not left:
            return math.inf
        if math.isinf(furthest):  # nothing, or no times
            return furthest
        # One that has little traffic may have learned nothing new for long, and not be behind.
        recent = furthest - self._wait / 2
        before = self._before(left, recent)
        behind = [
            p for p in left if inputs[p] < (ends[p] if (at := before.get(p)) is None else at)
        ]  # fmt: skip
        return min([recent, *(times.get(p, -math.inf) for p in behind)])
