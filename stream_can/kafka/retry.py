"""RetryPolicy: when to give up on brokers, commits, or a rival process of the same name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from stream_can.kafka.client.guards import FencedError, RebuildError, RetryError, within

log = logging.getLogger(__name__)
T = TypeVar("T")

LATE_SECONDS = 1.5
"""Seconds that a call may overrun its deadline."""
SHORTEST_CALL = 5.0
"""Minimum time for connecting, however short the given limit: a busy machine takes seconds."""
LONGEST_PAUSE = 5.0
"""Maximum seconds between attempts while no broker answers; the first pauses are shorter."""
FENCE_SECONDS = 60.0
"""Two fences within this time mean that another process has the same name."""
MOST_RESTORES = 20
"""Consecutive restores without a commit after which to give up."""
CALM_SECONDS = 120.0
"""Seconds without a restore after which the count of consecutive ones restarts."""


class RetryPolicy:
    """Retries calls until they succeed, time is up, or the worker stops.

    Parameters
    ----------
    seconds
        Give up after this time without any broker.
    instance
        Name of this process, for messages.
    stopping
        Set when the worker must stop.
    beat
        Called before each attempt, to report liveness while waiting.
    """

    def __init__(
        self, seconds: float, instance: str, stopping: threading.Event, beat: Callable[[], None]
    ) -> None:
        self.seconds, self.instance = seconds, instance
        self.stopping, self.beat = stopping, beat
        self._fenced = -FENCE_SECONDS
        self._restores, self._restored, self._committed = 0, 0.0, 0

    def until_answered(self, call: Callable[[], T]) -> T:
        """Repeat ``call()`` while no broker answers, with growing pauses."""
        deadline = time.monotonic() + self.seconds
        pause = 0.2
        while True:
            self.beat()
            try:
                return self._until(deadline, call)
            except (RetryError, RebuildError) as error:
                if time.monotonic() > deadline or self.stopping.is_set():
                    raise RetryError(str(error)) from error
                log.warning("%s; trying again", error)
                self.stopping.wait(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(2 * pause, LONGEST_PAUSE)

    def _until(self, deadline: float, call: Callable[[], T]) -> T:
        """Run ``call()``; abandon it where it overruns the deadline by far."""
        seconds_left = deadline + LATE_SECONDS - time.monotonic()
        return within(max(seconds_left, SHORTEST_CALL), call, otherwise=RetryError)

    def until_joined(self, call: Callable[[], None], rejoin: Callable[[], None]) -> None:
        """Repeat ``call()`` until it is answered; run ``rejoin()`` where it is fenced."""
        while not self.stopping.is_set():
            try:
                self.until_answered(call)
                return
            except FencedError as error:
                self.note_fence(error)
                call = rejoin

    def note_fence(self, error: FencedError) -> None:
        """Raise at the second fence within a minute."""
        now = time.monotonic()
        if now - self._fenced < FENCE_SECONDS:
            raise FencedError(
                f"{error}. This is the second time within {FENCE_SECONDS:.0f} s: does"
                f" another process run with instance {self.instance!r}?"
            ) from error
        self._fenced = now
        log.warning("%s; joining again", error)

    def before_restore(self, error: RebuildError, committed: int) -> None:
        """Pause, longer each time; raise after too many restores without a commit.

        Parameters
        ----------
        error
            Cause of the restore.
        committed
            Number of records that this process has committed.
        """
        if committed != self._committed or time.monotonic() - self._restored > CALM_SECONDS:
            self._restores = 0
        self._restores += 1
        if self._restores > MOST_RESTORES:
            raise RetryError(
                f"{MOST_RESTORES} failures in a row, and nothing was committed: {error}"
            ) from error
        if self._restores > 1:
            self.beat()
            self.stopping.wait(min(0.05 * 2**self._restores, LONGEST_PAUSE))
        self._restored, self._committed = time.monotonic(), committed
