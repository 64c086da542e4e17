"""Commits: writes a server's events in batches, and its state from time to time.

The learner's thread collects; another one writes. Where the file cannot be written, writing is
retried, and whoever waits is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stream_can.app.health import Health
from stream_can.app.metrics import Metrics
from stream_can.app.tally import Tally
from stream_can.learner.learner import Learner
from stream_can.learner.model_name import Name
from stream_can.serve.database import CannotWrite
from stream_can.serve.service import Unavailable
from stream_can.serve.store import Store

log = logging.getLogger(__name__)

STATE_SECONDS = 30.0
"""Seconds between two states."""
MOST_LABEL_BYTES = 8 << 20
"""Maximum bytes of labels after a state; beyond it the next state is due."""
SHARE = 0.01
"""Maximum share of the time spent collecting states."""
AGAIN_SECONDS, ANEW_SECONDS = 1.0, 30.0
"""Seconds between attempts to write a file after an error; and to rewrite it, for which all kept
predictions are collected."""
MOST_UNWRITTEN = 100_000
"""Maximum number of predictions waiting for an unwritable file; beyond it only the state and the
recent predictions are written once possible."""


class Commits:
    """Writer of a learner's events.

    Parameters
    ----------
    learner, store
        The learner, and its file.
    identity
        The application's identity.
    tally, metrics, health
        Informed of each commit.
    open_notes
        Returns notes on kept predictions, by number; called where the file is rewritten.
    """

    def __init__(
        self,
        learner: Learner,
        store: Store,
        identity: dict[str, Any],
        *,
        tally: Tally,
        metrics: Metrics,
        health: Health,
        open_notes: Callable[[], list[tuple[int, bytes]]],
    ) -> None:
        self._learner, self._store, self._identity = learner, store, identity
        self._tally, self._metrics, self._health = tally, metrics, health
        self._open_notes = open_notes
        self._thread = ThreadPoolExecutor(1, "stream-can-store")
        self._notes: list[tuple[int, bytes]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._changed = self._counted = self._ends = self._anew = False
        self._unwritten = 0
        self._touched: set[Name] = set()
        """Models and versions whose correctors have changed since the last state."""
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._due = time.monotonic() + STATE_SECONDS
        self.trouble: str | None = None
        """Why nothing can be written."""

    # ---- events

    def came(self, rows: int, names: Iterable[Name]) -> None:
        """Note predictions, or labels alone, of these models and versions."""
        self._unwritten += rows
        self._touched.update(names)
        self._changed = True
        self._wake.set()

    def note(self, number: int, data: bytes) -> None:
        """Store a note on a prediction."""
        self._notes.append((number, data))

    def counted(self) -> None:
        """Note that counts have changed without other events."""
        self._counted = True

    async def written(self) -> None:
        """Wait until everything so far is on disk.

        Raises
        ------
        Unavailable
            It cannot be written now. It is kept in memory, and written once possible.
        """
        if self.trouble is not None:
            raise Unavailable(f"{self.trouble}; it is kept in memory and written later")
        if not self._changed and self._idle.is_set():
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._wake.set()
        await future

    # ---- the loop

    async def run(self, interval: float) -> None:
        """Commit the events of each interval together, until :meth:`end`."""
        try:
            await self._run(interval)
        finally:
            for future in self._waiting:
                if not future.done():
                    future.set_exception(Unavailable("the server stops; send it again"))

    async def _run(self, interval: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), 1.0)
            self._health.beat()
            if self._changed or self._waiting:
                if not self._ends:
                    await asyncio.sleep(interval)
                await self._commit()
            elif self._counted:
                self._metrics.committed({0: self._tally}, 0.0, 0)
                self._counted = False
            if self._ends and (self._changed or self._waiting) and self.trouble is None:
                continue
            if self._ends:
                if self.trouble is None and self._touched:
                    await self._write_last()
                return

    async def _commit(self) -> None:
        """Write the events since the last commit; retry on errors."""
        self._wake.clear()
        self._idle.clear()
        begin, loop = time.monotonic(), asyncio.get_running_loop()
        write, waiting = self._gather(), self._waiting
        self._waiting, self._changed, self._counted = [], False, False
        sync, again = bool(waiting), AGAIN_SECONDS
        while True:
            try:
                if self._anew:
                    await loop.run_in_executor(self._thread, self._store.probe)
                    again, write = ANEW_SECONDS, self._gather_all()
                written = await loop.run_in_executor(self._thread, write, sync)
                break
            except CannotWrite as error:
                if self.trouble is None:
                    log.error("%s; trying again", error)
                self.trouble = self._health.waits_for = str(error)
                for future in waiting + self._waiting:
                    if not future.done():
                        future.set_exception(
                            Unavailable(f"{error}; it is learned once the file can be written")
                        )
                waiting = self._waiting = []
                self._health.beat()
                if self._ends:
                    log.error("what came since then is lost; no lost label was acknowledged")
                    return
                await asyncio.sleep(again)
                again = AGAIN_SECONDS
                self._anew = self._anew or self._unwritten > MOST_UNWRITTEN
                if self._anew:
                    self._learner.stop_events()
        if self.trouble is not None:
            log.warning("state %s: written again", self._store.path)
        self.trouble = self._health.waits_for = None
        self._anew = False
        self._metrics.committed({0: self._tally}, time.monotonic() - begin, written)
        self._idle.set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _gather(self) -> Callable[[bool], int]:
        """Return a function that writes the events since the last commit and, when due, the state;
        it returns the size of the events in bytes."""
        store, events = self._store, self._learner.take_events()
        notes, self._notes, self._unwritten = self._notes, [], 0
        put_state: Callable[[], None] | None = None
        if time.monotonic() >= self._due or store.label_bytes > MOST_LABEL_BYTES:
            put_state = self._gather_state()

        def write(sync: bool) -> int:
            written = store.write(events, notes, sync=sync)
            if put_state is not None:
                put_state()
            return written

        return write

    def _gather_state(self) -> Callable[[], None]:
        """Return a function that writes the present state."""
        learner, begin = self._learner, time.monotonic()
        rest = set(learner.models) - self._touched
        state, oldest = learner.state(without=rest), learner.oldest
        touched, self._touched = self._touched, set()
        took = time.monotonic() - begin
        self._due = begin + max(STATE_SECONDS, took / SHARE)

        def write() -> None:
            try:
                self._store.write_state(state, oldest, self._identity)
            except CannotWrite as error:
                log.warning("%s", error)
                self._touched |= touched

        return write

    def _gather_all(self) -> Callable[[bool], int]:
        """Return a function that replaces the file's content by the present state and recent
        predictions."""
        recent, state = self._learner.keep_events(), self._learner.state()
        self._notes, self._unwritten, self._touched = [], 0, set()
        notes = self._open_notes()
        return lambda sync: self._store.write_anew(state, recent, notes, self._identity)

    async def _write_last(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._gather_state())

    async def end(self, running: asyncio.Task[None]) -> None:
        """Write the rest and close the file."""
        self._ends = True
        self._wake.set()
        try:
            await running
        finally:
            self._thread.shutdown()
            self._store.close()
