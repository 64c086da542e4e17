"""What is learned: a replica for each partition of the learned log that is needed here.

Its entries are written in the transactions of the partitions, read back by everyone, and folded in
their order. So a replica holds what is committed and nothing else: aborted transactions, rebalances
and restores leave it alone.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple

from stream_can.errors import SnapshotMismatch
from stream_can.kafka import shared
from stream_can.kafka.beginning import Beginning, news
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RebuildError, RetryError
from stream_can.kafka.client.log import LogReader
from stream_can.kafka.restore import settled
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import TaskStart
from stream_can.messages.naming import LaneName
from stream_can.messages.records import place
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from stream_can.stream.task import Task

log = logging.getLogger(__name__)

SHARED_SECONDS = 30.0
"""Between two shared records."""
FOLD_SECONDS = 0.05
"""The loop folds for so long at a time."""
TOLD = 10
"""Of foreign records so many have a line each; behind that, every thousandth."""
STILL_SECONDS = 30.0
"""A log that brings nothing for so long, though there is more, is given up."""


class NewerRelease(DeniedError):
    """The log cannot be read on: a newer release wrote what follows."""


class SharedRecord(NamedTuple):
    """A shared record to write."""

    partition: int
    """Of the state topic."""
    key: bytes
    value: bytes | None


class LearnedLog:
    """The replicas of one process.

    Parameters
    ----------
    settings, client, start
        The topics and rules, the brokers, and the corrector to start from.
    beat
        Called while a log is folded: that is alive.
    """

    def __init__(
        self, settings: Settings, client: Client, start: TaskStart, beat: Callable[[], None]
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
        self._beginning = Beginning(settings, client, start)
        self._gaps: set[int] = set()
        self._kept: dict[int, Replica] = {}
        """By partition of a log that begins anew: what its lanes had learned, if that is kept."""
        self._written: dict[int, dict[LaneName, int]] = {}
        """By partition of the log: the offsets in the lanes' records that are known to be there."""
        self._agreed: dict[int, tuple[int, bytes | None]] = {}
        """By partition of the log: the epoch and mark that were last compared with our settings."""

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

    def compare(self) -> None:
        """Refuse settings of another application than the log's, before anything is done.

        Nothing is written. With ``reset_state`` there is nothing to refuse yet.
        """
        if not self.settings.reset_state:
            self._open([0], begins=False)

    def open(self, partitions: Iterable[int]) -> None:
        """Hold the replicas that these partitions of the input need, up to the end of the log.

        Whoever has no partition holds one too, to see what befalls the log.

        Raises
        ------
        DeniedError
            What is stored does not fit together; the message names what, and the way out.
        RetryError
            The log does not answer.
        """
        needed = sorted({self.log_partition(partition) for partition in partitions})
        self._open(needed or [0], begins=bool(needed))

    def _open(self, needed: list[int], *, begins: bool) -> None:
        self.replicas = {p: self.replicas[p] for p in needed if p in self.replicas}
        ends: dict[int, int] = {}
        anew: dict[int, bytes] = {}
        for number in needed:
            replica = self.replicas.get(number)
            begin, ends[number] = self._span(number, replica.offset if replica else 0)
            if replica is None or not begin <= replica.offset <= ends[number]:
                self.replicas[number], problem, kept = self._find(number)
                if problem is not None:
                    anew[number] = self._give_up(number, problem, kept, ends[number])
        self._waiting = {number: deque() for number in needed}
        self._next = {number: self.replicas[number].offset for number in needed}
        self._reader.read(self._next)
        for number in needed:
            try:
                self._fold_to(number, ends[number])
            except NewerRelease as error:
                anew[number] = self._give_up(number, f"{error};", None, ends[number])
                self._waiting[number].clear()
                self._next[number] = ends[number]
                self._reader.read(self._next)
            if begins:
                self._begin(number, anew.get(number))
            elif self.replicas[number].started:
                self._require_ours(number)

    def _span(self, number: int, at: int) -> tuple[int, int]:
        """The first offset still held and the next one of a partition of the log."""
        return settled(lambda: self.client.readers.span(self.topic, number), at, self._beat)

    def _find(self, number: int) -> tuple[Replica, str | None, Replica | None]:
        """A replica at the newest shared record; or what is wrong, and what of it is still good."""
        wanted = shared.key(self.settings.learn, number)
        data = shared.newest_shared(self.client.readers, self.state_topic, number, wanted)
        begin, end = self._span(number, 0)
        if data is None:
            problem = None
            if begin > 0:
                problem = f"retention deleted its first {begin} offsets, and no shared record is"
                problem += f" in {self.state_topic!r};"
            return Replica(), problem, None
        try:
            replica = shared.stored(self.client.readers, self.state_topic, number, data)
        except SnapshotMismatch as error:
            return Replica(), f"the shared record in {self.state_topic!r}: {error};", None
        begin, end = self._span(number, replica.offset)
        if replica.offset > end:
            problem = f"the shared record in {self.state_topic!r} is of offset {replica.offset},"
            return replica, f"{problem} and the log ends at {end}: is it new?", replica
        if replica.offset < begin:
            gap = f"partition {number} of {self.topic!r}: retention deleted offsets"
            gap += f" {replica.offset} to {begin - 1} before they were learned"
            if not self.settings.skip_gap:
                raise DeniedError(f"{gap}; --skip-gap goes on behind them")
            log.warning("%s; going on behind them", gap)
            replica.advance(begin)
            self._gaps.add(number)
        return replica, None, None

    def _give_up(self, number: int, problem: str, kept: Replica | None, end: int) -> bytes:
        """Leave a log that cannot be used behind; the corrector with which to begin anew there."""
        where = f"partition {number} of {self.topic!r}"
        keeps = kept is not None and not self._beginning.differences(kept)
        what = "with what that record holds" if keeps else "which forgets what was learned"
        if not self.settings.reset_state:
            raise DeniedError(f"{where}: {problem} --reset-state begins anew there, {what}")
        log.warning("%s: %s beginning anew, %s", where, problem, what)
        self.replicas[number] = Replica(None, end)
        if keeps and kept is not None:
            self._kept[number] = kept
        return self._beginning.corrector_for(kept) if keeps and kept else self.start.snapshot

    def _begin(self, number: int, anew: bytes | None) -> None:
        """Learn in a log: let it start, or begin anew, where that is due; else compare."""
        replica, beginning = self.replicas[number], self._beginning
        if replica.started and self.settings.reset_state and beginning.differences(replica):
            anew = beginning.corrector_for(replica)
        if replica.started and anew is None:
            self._require_ours(number)
            self.start.compare_counts(replica.corrector.train_prior)
            if number in self._gaps:
                self._write(self.records(number))
        else:
            lanes: list[bytes] = []
            if anew is not None:
                beginning.require_alone(number)
                lanes = beginning.kept_lanes(self._kept.pop(number, replica))
            epoch = replica.epoch
            beginning.begin(
                number, anew or self.start.snapshot, reset=anew is not None, lanes=lanes
            )
            self._fold_until(
                number, lambda: replica.started and (anew is None or replica.epoch != epoch)
            )
            self._require_ours(number)  # another one may have been first
            self._write(self.records(number))
        self._gaps.discard(number)
        beginning.tell_settings(number, replica)

    def _require_ours(self, number: int) -> None:
        replica = self.replicas[number]
        differences = self._beginning.differences(replica)
        if differences:
            raise self._beginning.refusal(number, differences, replica)
        self._agreed[number] = replica.epoch, replica.terms.app

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
        """Wait for the log's reader and fold what it brings, until ``done``; time runs anew with
        each entry. RetryError where nothing came for `STILL_SECONDS`."""
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
        for number, read in self._reader.take().items():
            self._waiting[number].extend(read.records)
            self._next[number] = read.next
        deadline = time.monotonic() + FOLD_SECONDS
        for number, waiting in self._waiting.items():
            replica = self.replicas[number]
            while waiting and time.monotonic() < deadline:
                self._fold(number, waiting.popleft())
            if not waiting:
                replica.advance(self._next[number])

    def _fold(self, number: int, record: Any) -> None:
        """Fold a record, and say what of it everybody should know."""
        replica = self.replicas[number]
        before = replica.settings if replica.started else {}
        terms = replica.terms
        try:
            left = replica.fold(record)
        except entry.NewerEntry as error:
            raise NewerRelease(str(error)) from error
        if left is not None:
            if not left.foreign or replica.foreign <= TOLD or replica.foreign % 1000 == 0:
                log.warning("%s; left out", left.reason)
        elif replica.terms is not terms:
            said = news((terms, before), (replica.terms, replica.settings))
            if said is not None:
                log.log(said[0], "%s: %s", place(record), said[1])

    def require_current(self, tasks: Mapping[int, Task]) -> None:
        """Refuse to go on in a log that begins anew.

        Raises
        ------
        DeniedError
            It is not ours any more; the message says in what.
        RebuildError
            It is ours, and what is stored goes on with it.
        """
        for number, replica in self.replicas.items():
            if replica.started and self._agreed.get(number) != (replica.epoch, replica.terms.app):
                self._require_ours(number)
        stale = [partition for partition, task in tasks.items() if task.stale]
        if stale:
            raise RebuildError(f"the log that partitions {stale} learn from began anew")

    # -- shared records --------------------------------------------------------------------------

    def due(self, partitions: Container[int], *, last: bool = False) -> list[int]:
        """Partitions of the log whose shared record it is time to write, by the owner of these.

        Parameters
        ----------
        last
            The process ends: now, if anything was learned since the last.
        """
        now, due = time.monotonic(), []
        for number in self.replicas:
            replica = self.replicas[number]
            if number not in partitions:
                continue
            written, at = self._shared.setdefault(number, (-1, now))
            changed = replica.newest is not None and replica.offset > written
            if changed and (last or now - at >= SHARED_SECONDS):
                due.append(number)
        return due

    def records(self, number: int) -> list[SharedRecord]:
        """The shared records of a partition of the log, to write now in one transaction: of lanes
        those that have learned since their last one."""
        replica, learn = self.replicas[number], self.settings.learn
        self._shared[number] = replica.offset, time.monotonic()
        lanes, at = shared.records(replica, self._written.get(number, {}), number)
        self._written[number] = at
        return [
            *(SharedRecord(number, *one) for one in lanes.items()),
            SharedRecord(number, shared.key(learn, number), shared.pack(replica, at)),
        ]

    def forget_written(self) -> None:
        """A transaction may have been given up: which records of lanes are stored is not known."""
        self._written.clear()

    def _write(self, records: Iterable[SharedRecord]) -> None:
        for record in records:
            self.client.transaction.send(self.state_topic, *record)
        self.client.transaction.commit({}, None)
