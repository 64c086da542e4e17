"""The partitions that are ours: restored, corrected, and committed in transactions.

What was sent and learned counts only once it is committed; until then `drop` gives it up.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from stream_can.app.health import Health
from stream_can.app.metrics import Metrics
from stream_can.errors import StreamCANError
from stream_can.kafka import refusals
from stream_can.kafka import restore as state
from stream_can.kafka.client.accepts import weight
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RebuildError
from stream_can.kafka.client.member import Assignment
from stream_can.kafka.client.transaction import Offset
from stream_can.kafka.known import handled, sources
from stream_can.kafka.learned import LearnedLog
from stream_can.kafka.recall import recall
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import TaskStart
from stream_can.messages.records import Output, place
from stream_can.stream.entry import LaneMark, entries
from stream_can.stream.task import Task

log = logging.getLogger(__name__)


LEAST_SHARE = 0.25
"""Of the commit interval, between the end of a commit and the next."""

PATIENCE_SECONDS, LAST_PATIENCE_SECONDS = 0.25, 0.05
"""That records wait for what fetches tell: before it is time to commit, and then."""


class UnreadableRecord(StreamCANError):
    """A record cannot be read, and ``errors="fail"`` says to stop there."""


class Partitions:
    """The tasks of an assignment, and the transaction that they are in.

    Parameters
    ----------
    settings, client, start, learned_log
        The topics and rules, the brokers, what makes a task, and what corrects its rows.
    metrics, health
        Told of what was done.
    """

    def __init__(
        self,
        settings: Settings,
        client: Client,
        start: TaskStart,
        learned_log: LearnedLog,
        metrics: Metrics,
        health: Health,
    ) -> None:
        self.settings, self.client, self.start = settings, client, start
        self.learned_log = learned_log
        self.metrics, self.health = metrics, health
        self.state_topic, self.dead_letters = settings.own_topics
        self.tasks: dict[int, Task] = {}
        self.committed = 0
        """Records, of all transactions of this process."""
        self.interval = settings.commit_interval_ms / 1000
        """Seconds from one commit to the next."""
        self._token: Any = None
        self._changed: dict[int, int] = {}
        """Partition -> the first offset of input that is not committed."""
        self._handled = 0
        self._told_of_values = False
        self._due = 0.0

    def drop(self) -> None:
        """Forget everything that Kafka may not know of."""
        self.metrics.given_up("aborted")
        self.health.ready = False
        self.learned_log.forget_written()
        self.tasks, self._token = {}, None
        self._changed, self._handled = {}, 0

    def restore(self, assignment: Assignment) -> None:
        """Take each partition up where its last transaction was committed."""
        begin = time.monotonic()
        s, member = self.settings, self.client.member
        rules = state.Rules(s.start, s.reset_state, s.skip_gap)
        self.learned_log.open(assignment.partitions)
        unreadable: DeniedError | None = None
        for partition in assignment.partitions:
            self.health.beat()
            replica = self.learned_log.replica(partition)
            task = state.restore(
                self.client, partition, self.state_topic,
                partial(self.start.fresh, replica), partial(self.start.stored, replica), rules,
            )  # fmt: skip
            try:
                recall(self.client.readers, task, partition, s.output, s.labels, self.health.beat)
            except DeniedError as error:  # what it is for is to be seen, not sent
                unreadable = error
            self.learned_log.wait_for(partition, task.learned_offset)
            member.start_at(s.input, partition, task.next_prediction)
            if s.labels:
                member.start_at(s.labels, partition, task.next_label)
            self.tasks[partition] = task
        if unreadable is not None:
            log.warning(
                "output topic %r may not be read (%s): labels of what was sent before now are"
                " learned and not scored, and their requests are not known; give READ on it",
                s.output, unreadable,
            )  # fmt: skip
        self._token = assignment.token
        self._due = time.monotonic() + self.interval
        seconds = time.monotonic() - begin
        self.metrics.restored(sources(self.tasks), seconds, self.client.transaction.clock.skew)
        self.health.ready = True
        log.info("partitions %s, restored in %.2f s", list(assignment.partitions), seconds)

    def handle(self, partition: int, records: list[Any]) -> None:
        """Correct records; put what comes of them into the transaction.

        Raises
        ------
        UnreadableRecord
            ``errors="fail"``: what came before the record is committed.
        """
        task, topics = self.tasks[partition], self.client.transaction.accepts
        first = partition not in self._changed
        self._changed.setdefault(partition, task.next_prediction)
        result = task.handle(records)
        s = self.settings
        now = self.client.transaction.clock.now_ms()
        refusals.divert(result, task.counts, topics[s.output], now, fail=s.errors == "fail")
        refusals.date(result.dead_letters, topics[self.dead_letters], now)
        if result.requests:
            name = s.requests_topic
            result.requests = refusals.accepted(result.requests, name, topics[name], now)
        if result.faults and not self._told_of_values:
            self._told_of_values = True
            record, fault = result.faults[0]
            log.warning("%s: %s; others are not told of", place(record), fault)
        self.metrics.handled(handled(result, self.settings.field_names))
        send_all = self.client.transaction.send_all
        for out in result.dead_letters:
            self._require_fits(out)
        with self._made_of():
            if first:
                log_partition = self.learned_log.log_partition(partition)
                self.client.transaction.expect(
                    (self.state_topic, partition), (self.learned_log.topic, log_partition)
                )
            send_all(s.output, partition, result.outputs)
            send_all(self.dead_letters, partition, result.dead_letters)
            send_all(s.requests_topic, partition, result.requests)
        self._handled += len(records)
        if result.stopped is not None:
            record, error = result.stopped
            self.commit()
            raise UnreadableRecord(
                f"offset {record.offset} of {record.topic}-{partition}: {error}"
            ) from error

    def _require_fits(self, out: Output) -> None:
        """Brokers would refuse a larger dead letter, again after each restore."""
        size = weight(out)
        limit = self.client.transaction.limits[self.dead_letters]
        if size > limit:
            assert out.source is not None
            raise DeniedError(
                f"a dead letter of {size} bytes does not fit {self.dead_letters!r}"
                f" (max.message.bytes={limit}): offset {out.source.offset} of"
                f" {out.source.topic}-{out.source.partition}; raise the topic's limit"
            )

    @contextlib.contextmanager
    def _made_of(self) -> Iterator[None]:
        """A record that the brokers refuse: say which part of the input it was made of."""
        try:
            yield
        except DeniedError as error:
            made_of = ", ".join(
                f"offsets {first} to {self.tasks[p].next_prediction - 1} of"
                f" {self.settings.input}-{p}"
                for p, first in self._changed.items()
            )
            raise type(error)(f"{error} (made of {made_of})") from error

    @property
    def open(self) -> bool:
        """Whether something was done that is not committed."""
        return bool(self._changed)

    @property
    def due(self) -> bool:
        """Whether it is time to commit."""
        if not self._changed:
            return bool(self.learned_log.due(self.tasks))
        return not self.left or not self.room

    @property
    def left(self) -> float:
        """Seconds until the next commit, if there is anything to commit by then."""
        return max(0.0, self._due - time.monotonic())

    @property
    def patience(self) -> float:
        """Seconds that a record may wait to be taken without a question to the brokers.

        Before it is time to commit, little is lost by waiting. Where nothing else is to be
        committed it would be.
        """
        if self.left:
            return PATIENCE_SECONDS
        return LAST_PATIENCE_SECONDS if self._changed else 0.0

    @property
    def room(self) -> int:
        """How many records the transaction may still take."""
        return max(0, self.settings.commit_every - self._handled)

    def commit(self, last: bool = False) -> None:
        """Commit outputs, positions, offsets and what is to be learned since the last time, if any.

        Parameters
        ----------
        last
            Write shared records too, that are not due yet.
        """
        if self.client.member.rebalanced:
            return  # the next step aborts and restores
        shared = self.learned_log.due(self.tasks, last=last)
        if not self._changed and not shared:
            return
        s, begin, transaction = self.settings, time.monotonic(), self.client.transaction
        self._due = begin + self.interval  # from its begin: records wait while it goes on, too
        sent, written = {}, 0
        with self._made_of():
            for partition in sorted(self._changed):
                replica = self.learned_log.replica(partition)
                positions = self.tasks[partition].positions(replica.offset)
                written += len(positions)
                sent[partition] = transaction.send(
                    self.state_topic, partition, state.key(s.input, partition), positions
                )
            for number in shared:
                for record in self.learned_log.records(number):
                    written += len(record.value or b"")
                    transaction.send(self.state_topic, *record)
            written += self._send_entries()
            transaction.deliver()
        offsets: dict[Any, Offset] = {}
        for partition, future in sent.items():
            offsets |= state.offsets(
                self.tasks[partition], s.input, s.labels, partition, future.value.offset
            )
        try:
            self.client.commit(offsets, self._token)
        except RebuildError:
            self.metrics.given_up("unknown")
            raise
        tasks = {partition: self.tasks[partition] for partition in self._changed}
        self.metrics.committed(sources(tasks), time.monotonic() - begin, written)
        self.committed += self._handled
        self._changed, self._handled = {}, 0
        # A commit that takes long leaves time to poll all the same, or a backlog would grow.
        self._due = max(self._due, time.monotonic() + self.interval * LEAST_SHARE)

    def _send_entries(self) -> int:
        """Put what is to be learned into the transaction; how many bytes.

        Last, since a reader of the log waits for a transaction from its first entry to its end.
        """
        learned_log, written = self.learned_log, 0
        opened: dict[Any, tuple[LaneMark | None, list[Any]]] = {}
        for partition in sorted(self._changed):
            number = learned_log.log_partition(partition)
            parts, end = self.tasks[partition].take_all()
            for mark, part in parts:  # partitions that begin one lane otherwise are apart
                same = None if mark is None else msgspec.structs.replace(mark, time=0)
                opened.setdefault((number, same), (mark, []))[1].append((partition, part, end))
        for (number, _), (mark, of_lane) in opened.items():
            replica, corrector = learned_log.replicas[number], of_lane[0][1].corrector
            for data in entries(
                corrector, replica.offset, of_lane, app=replica.terms.app, lane=mark
            ):
                self.client.transaction.send(learned_log.topic, number, None, data)
                written += len(data)
        return written
