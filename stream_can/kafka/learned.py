"""What is learned: a replica for each partition of the learned log that is needed here.

Its entries are written in the transactions of the partitions, read back by everyone, and folded in
their order. So a replica holds what is committed and nothing else: aborted transactions, rebalances
and restores leave it alone.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Any, NamedTuple

from stream_can.errors import SnapshotMismatch
from stream_can.kafka import shared
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RetryError
from stream_can.kafka.client.log import LogReader
from stream_can.kafka.restore import settled
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import Start
from stream_can.stream import entry
from stream_can.stream.replica import Replica

log = logging.getLogger(__name__)

SHARED_SECONDS = 30.0
"""Between two shared records."""
FOLD_SECONDS = 0.05
"""The loop folds for so long at a time."""
STILL_SECONDS = 30.0
"""A log that brings nothing for so long, though there is more, is given up."""


class SharedRecord(NamedTuple):
    """A shared record to write."""

    partition: int
    """Of the state topic."""
    key: bytes
    value: bytes


class Learned:
    """The replicas of one process.

    Parameters
    ----------
    settings, client, start
        The topics and rules, the brokers, and the corrector to start from.
    beat
        Called while a log is folded: that is alive.
    """

    def __init__(
        self, settings: Settings, client: Client, start: Start, beat: Callable[[], None]
    ) -> None:
        self.settings, self.client, self.start = settings, client, start
        self.topic, self.state_topic = settings.learned_topic, settings.own_topics[0]
        self.replicas: dict[int, Replica] = {}
        """By partition of the log."""
        self._beat = beat
        self._reader = LogReader(client.options, self.topic)
        self._waiting: dict[int, deque[Any]] = {}
        self._next: dict[int, int] = {}
        self._shared: dict[int, tuple[int, float]] = {}
        self._told: set[int] = set()

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def log_partition(self, partition: int) -> int:
        """The partition of the log in which a partition of the input learns."""
        return partition if self.settings.learn == "apart" else 0

    def replica(self, partition: int) -> Replica:
        """What a partition of the input is corrected with."""
        return self.replicas[self.log_partition(partition)]

    # -- taking up -------------------------------------------------------------------------------

    def open(self, partitions: Iterable[int]) -> None:
        """Hold the replicas that these partitions of the input need, up to the end of the log.

        Raises
        ------
        DeniedError
            What is stored does not fit together; the message names what, and the way out.
        RetryError
            The log does not answer.
        """
        needed = sorted({self.log_partition(partition) for partition in partitions})
        self.replicas = {p: self.replicas[p] for p in needed if p in self.replicas}
        ends: dict[int, int] = {}
        anew: dict[int, bool] = {}
        for number in needed:
            replica = self.replicas.get(number)
            begin, ends[number] = self._span(number, replica.offset if replica else 0)
            if replica is None or not begin <= replica.offset <= ends[number]:
                anew[number] = self._find(number)
        self._waiting = {number: deque() for number in needed}
        self._next = {number: self.replicas[number].offset for number in needed}
        self._reader.read(self._next)
        for number in needed:
            self._fold_to(number, ends[number])
            self._begin(number, reset=anew.get(number, False))
            self._tell_settings(number)

    def _span(self, number: int, at: int) -> tuple[int, int]:
        """The first offset still held and the next one of a partition of the log."""
        return settled(lambda: self.client.readers.span(self.topic, number), at, self._beat)

    def _find(self, number: int) -> bool:
        """Put a replica at the newest shared record; whether the log is to begin anew."""
        s, wanted = self.settings, shared.key(self.settings.learn, number)
        where = f"partition {number} of {self.topic!r}"
        data = shared.newest_shared(self.client.readers, self.state_topic, number, wanted)
        problem, replica = None, Replica()
        begin, end = self._span(number, 0)
        if data is None:
            if begin > 0:
                problem = f"retention deleted its first {begin} offsets, and no shared record is"
                problem += f" in {self.state_topic!r};"
        else:
            try:
                replica = shared.unpack(data)
                self.start.require_fits(replica.corrector)
            except SnapshotMismatch as error:
                problem = f"the shared record in {self.state_topic!r}: {error};"
            else:
                begin, end = self._span(number, replica.offset)
                if replica.offset > end:
                    problem = f"the shared record in {self.state_topic!r} is of offset"
                    problem += f" {replica.offset}, and the log ends at {end}: is it new?"
                elif replica.offset < begin:
                    gap = f"{where}: retention deleted offsets {replica.offset} to {begin - 1}"
                    gap += " before they were learned"
                    if not s.skip_gap:
                        raise DeniedError(f"{gap}; --skip-gap goes on behind them")
                    log.warning("%s; going on behind them", gap)
                    replica.advance(begin)
                    self.replicas[number] = replica
                    self._write(self.record(number))
                    return False
        if problem is None:
            self.replicas[number] = replica
            return False
        if not s.reset_state:
            raise DeniedError(
                f"{where}: {problem} --reset-state begins anew there, which forgets what was"
                " learned"
            )
        log.warning("%s: %s beginning anew", where, problem)
        self.replicas[number] = Replica(None, end)
        return True

    def _begin(self, number: int, *, reset: bool) -> None:
        """Let a log that has not started start with our corrector, for everybody."""
        replica = self.replicas[number]
        if replica.started:
            try:
                self.start.require_fits(replica.corrector)
            except SnapshotMismatch as error:
                raise DeniedError(f"partition {number} of {self.topic!r}: {error}") from None
            self.start.compare_counts(replica.corrector)
            return
        transaction = self.client.transaction
        transaction.send(self.topic, number, None, entry.start(self.start.snapshot, reset=reset))
        transaction.commit({}, None)
        self._fold_until(number, lambda: replica.started)
        self._write(self.record(number))

    def _tell_settings(self, number: int) -> None:
        """Once: a process that starts with other settings than the log's changes them there."""
        if number in self._told:
            return
        have, want = self.replicas[number].corrector.settings, self.start.settings
        changed = {name: value for name, value in want.items() if have[name] != value}
        if changed:
            log.info("settings of the corrector change for every process: %s", changed)
            self.client.transaction.send(self.topic, number, None, entry.settings(changed))
            self.client.transaction.commit({}, None)
        self._told.add(number)

    def wait_for(self, partition: int, offset: int) -> None:
        """Fold up to the offset that a partition's last output was made from.

        Raises
        ------
        DeniedError
            The log ends before it.
        """
        number = self.log_partition(partition)
        if self.replicas[number].offset >= offset:
            return
        _, end = self._span(number, offset)
        if offset <= end:
            self._fold_to(number, offset)
            return
        problem = f"partition {partition} of {self.client.input!r} was corrected from offset"
        problem += f" {offset} of {self.topic!r}, which ends at {end}: is it new?"
        if not self.settings.reset_state:
            raise DeniedError(f"{problem} --reset-state goes on with what there is")
        log.warning("%s going on with what there is", problem)

    def _fold_to(self, number: int, offset: int) -> None:
        self._fold_until(number, lambda: self.replicas[number].offset >= offset)

    def _fold_until(self, number: int, done: Callable[[], bool]) -> None:
        replica, deadline = self.replicas[number], time.monotonic() + STILL_SECONDS
        before = replica.offset
        while not done():
            self.advance()
            self._beat()
            if replica.offset > before:
                before, deadline = replica.offset, time.monotonic() + STILL_SECONDS
            if time.monotonic() > deadline:
                raise RetryError(
                    f"partition {number} of {self.topic!r}: nothing behind offset {before} for"
                    f" {STILL_SECONDS:.0f} s"
                )
            if not self._waiting[number]:
                time.sleep(0.005)

    # -- going on --------------------------------------------------------------------------------

    def advance(self) -> None:
        """Fold what the log has brought, for a moment; never waits.

        Raises
        ------
        RebuildError, DeniedError
            The log cannot be read on, or holds what is no entry.
        """
        for number, found in self._reader.take().items():
            self._waiting[number].extend(found.records)
            self._next[number] = found.next
        deadline = time.monotonic() + FOLD_SECONDS
        for number, waiting in self._waiting.items():
            replica = self.replicas[number]
            while waiting and time.monotonic() < deadline:
                try:
                    replica.fold(waiting.popleft())
                except entry.BadEntry as error:
                    raise DeniedError(str(error)) from error
            if not waiting:
                replica.advance(self._next[number])

    # -- shared records --------------------------------------------------------------------------

    def due(self, partitions: Container[int], *, last: bool = False) -> list[int]:
        """Partitions of the log whose shared record it is time to write, by the owner of these.

        Parameters
        ----------
        last
            The process ends: now, if anything was learned since the last.
        """
        now, found = time.monotonic(), []
        for number in self.replicas:
            if number not in partitions:
                continue
            written, at = self._shared.setdefault(number, (-1, now))
            replica = self.replicas[number]
            changed = replica.newest is not None and replica.offset > written
            if changed and (last or now - at >= SHARED_SECONDS):
                found.append(number)
        return found

    def record(self, number: int) -> SharedRecord:
        """The shared record of a partition of the log, to write now."""
        replica = self.replicas[number]
        self._shared[number] = replica.offset, time.monotonic()
        return SharedRecord(number, shared.key(self.settings.learn, number), shared.pack(replica))

    def _write(self, record: SharedRecord) -> None:
        self.client.transaction.send(self.state_topic, *record)
        self.client.transaction.commit({}, None)
