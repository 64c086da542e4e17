"""When to give up: no broker answers, nothing gets committed, or another process has our name."""

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
"""How long a call may still take when time is up."""
SHORTEST_CALL = 5.0
"""Connecting takes a second or two on a busy machine, however short the time that is given."""
LONGEST_PAUSE = 5.0
"""Seconds between two calls while no broker answers; the first pauses are shorter."""
FENCE_SECONDS = 60.0
"""Two fences within so long mean that another process lives under our name."""
MOST_RESTORES = 20
"""Restores in a row, and nothing committed in between, after which no other one will help."""
CALM_SECONDS = 120.0
"""After so long without a restore, counting of those in a row starts over."""


class Patience:
    """Calls that are made again, until they succeed, time is up or the worker stops.

    Parameters
    ----------
    seconds
        Give up after so long without any broker.
    instance
        Our name, for the message.
    stopping
        Set when the worker is to stop.
    beat
        Called before each try: waiting for brokers is alive.
    """

    def __init__(
        self, seconds: float, instance: str, stopping: threading.Event, beat: Callable[[], None]
    ) -> None:
        self.seconds, self.instance = seconds, instance
        self.stopping, self.beat = stopping, beat
        self._fenced = -FENCE_SECONDS
        self._restores, self._restored, self._committed = 0, 0.0, 0

    def until_answered(self, call: Callable[[], T]) -> T:
        """``call()`` again and again while no broker answers, with pauses that grow."""
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
        """``call()``, left to itself where it goes on for long after the deadline."""
        left = deadline + LATE_SECONDS - time.monotonic()
        return within(max(left, SHORTEST_CALL), call, otherwise=RetryError)

    def until_joined(self, call: Callable[[], None], rejoin: Callable[[], None]) -> None:
        """``call()`` until it is answered; where that is fenced, ``rejoin()``."""
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
        """Pause, longer each time; raise where many restores in a row have not helped.

        Parameters
        ----------
        error
            Why there is to be a restore.
        committed
            How many records this process has committed, of all time.
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
