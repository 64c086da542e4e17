"""The loop of ``stream-can learn``: read sent batches and labels, learn, write states.

Exactly one process learns: the owner of partition 0 of the topic of states in the learners' group.
It takes over the transactional id, which fences earlier owners, and only then reads the newest
state. A transaction holds a state, label requests, and dead letters of labels. On any error all
uncommitted work is dropped and learning resumes from the newest state.
"""

from __future__ import annotations

import logging
import time

from stream_can.app.metrics import Metrics
from stream_can.app.start import Start
from stream_can.kafka.batch_reader import BatchReader
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import RebuildError, RetryError
from stream_can.kafka.client.topic_limits import OVERHEAD_BYTES
from stream_can.kafka.first_state import FirstState
from stream_can.kafka.learner_counts import LearnerCounts
from stream_can.kafka.learner_lag import LearnerLag
from stream_can.kafka.learner_log import LearnerLog
from stream_can.kafka.play_order import PlayOrder
from stream_can.kafka.played_records import PlayedRecords
from stream_can.kafka.played_sender import PlayedSender
from stream_can.kafka.recovery import Recovery
from stream_can.kafka.schema_lookups import RegistryAway, SchemaLookups
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import CORRECTORS
from stream_can.kafka.state_pace import StatePace
from stream_can.kafka.state_writer import StateWriter
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.kafka.topics import topics_of
from stream_can.kafka.unplayed import UnplayedRecords

__all__ = ["LearningRole"]

log = logging.getLogger(__name__)

QUICK = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1500}
"""Session time-out: how soon another process takes over. Brokers allow no less by default."""
FRESH_MS = 20
"""Milliseconds to wait at most for records that came since the last poll, or lie there."""
POLLS = 4
"""Polls per commit interval."""


class LearningRole:
    """Learns while it owns partition 0 of the topic of states; implements
    :class:`stream_can.kafka.loop.Role`.

    Parameters
    ----------
    settings, start
        Topics and rules, and the source of initial correctors.
    metrics
        Receives counts.
    lookups
        Tell whether a label can be read now, or a schema registry must be asked first; such a
        label holds back those behind it in its partition.
    """

    def __init__(
        self,
        settings: Settings,
        start: Start,
        metrics: Metrics,
        lookups: SchemaLookups | None = None,
    ) -> None:
        self.settings, self.start, self.metrics = settings, start, metrics
        self._lookups = lookups
        group = f"{settings.application_id}-learner"
        self.client = Client(
            settings.bootstrap_servers, group, settings.name,
            input=settings.state_topic, options=QUICK | settings.client,
            compression=settings.compression, skip_damaged=settings.skip_damaged,
            transactional_id=group,
        )  # fmt: skip
        self.learning: TopicLearner | None = None
        self.batch_reader = BatchReader(settings, start, metrics)
        self.recovery = Recovery(settings, start, self.client.readers, self.batch_reader, metrics)
        self._sender = PlayedSender(settings, self.client, [*start.classes])
        self.writer = StateWriter(settings, self.client, self._sender)
        self.first_state = FirstState(settings, self.client, self.recovery, self.writer)
        self._pace = StatePace(settings.commit_interval_ms / 1000)
        self._log = LearnerLog()
        self._lag: LearnerLag | None = None
        self._counts: LearnerCounts | None = None
        self._unplayed: UnplayedRecords | None = None
        self._order: PlayOrder | None = None
        self._output_bytes: int | None = None
        """Maximum size of an output."""
        self._next_poll = self._blocked_until = 0.0
        """Until when not to try again, after there was nothing to read, or to play."""
        self._has_more = False
        """Whether the last poll brought something, and more lies there."""

    @property
    def committed(self) -> int:
        """Number of states written by this process."""
        return self.writer.committed

    def check(self) -> None:
        """Check topics, rights and sizes; create missing topics where allowed."""
        s = self.settings
        own_topics = topics_of(s, learns=True, state_bytes=self.start.state_bytes)
        input_rights = {s.input: {"READ"}} if s.input else {}  # of slow partitions what comes next
        self.client.check_topics(
            input_rights,
            own_topics,
            input=s.input,
            create=s.create_topics,
            has_begun=self.recovery.has_state,
        )
        limit = self.client.transaction.max_bytes.get(s.output)
        self._output_bytes = None if limit is None else limit - OVERHEAD_BYTES

    def begin_anew(self) -> None:
        """Forget what was learned, see :meth:`FirstState.begin_anew`."""
        self.check()
        self.first_state.begin_anew()

    def drop(self) -> None:
        """Drop everything that is not in a state."""
        if self.learning is not None:
            self.metrics.learns(None)
        self.learning = None
        unplayed, self._unplayed = self._unplayed, None
        self._log.drop()
        if unplayed is not None:
            unplayed.close()

    def step(self, wait_ms: int) -> None:
        """Poll once; learn and write a state when due."""
        member = self.client.member
        member.poll(0 if self.learning is not None else wait_ms)
        assignment = member.take_rebalance()
        if assignment is not None and assignment.token is not None:
            for p in assignment.partitions:
                member.start_at(p, 0)
                member.hold(p, True)
            ours = CORRECTORS in assignment.partitions
            if ours and self.learning is None:
                try:
                    self._take_over()
                except RetryError as error:  # half done, and the assignment event is consumed
                    raise RebuildError(str(error)) from error
            elif not ours and self.learning is not None:
                log.info("another one learns now")
                self.client.transaction.abort()
                self.drop()
        if self.learning is not None:
            self._learn(self.learning, wait_ms)

    def _take_over(self) -> None:
        """Load the newest state, after fencing earlier owners."""
        begin, s = time.monotonic(), self.settings
        self.client.transaction.close()
        self.client.transaction.take_over()
        ids = self.writer.ids = self.client.topic_ids([s.sent_topic, *s.topics_of_labels])
        learning, stored = self.recovery.restore(ids)
        self.writer.go_on_from(stored)
        self._counts = LearnerCounts(s, self.start, self.metrics, learning)
        self._lag = LearnerLag(s, self.client.readers, self.metrics)
        self.learning = learning
        learning.output_bytes = self._output_bytes
        self._unplayed = UnplayedRecords(s, self.client, learning, self.batch_reader, self._lookups)
        self._order = PlayOrder(s, self.client.readers, learning, self._unplayed, self.batch_reader)
        moved = self.recovery.go_on_within_topics(learning, ids)
        self._unplayed.read_all()
        self.client.require_same(ids)  # what was read may be of either
        self._pace.due = self._next_poll = 0.0
        if stored is None or moved or learning.written.touched or not learning.written.begins:
            self._write(learning, None)
        log.info(
            "learning from state %d on, which was read in %.2f s", self.writer.number,
            time.monotonic() - begin,
        )  # fmt: skip

    def _learn(self, learning: TopicLearner, wait_ms: int) -> None:
        """Read on; play the records and write a state when due."""
        unplayed, order, counts, lag = self._unplayed, self._order, self._counts, self._lag
        assert unplayed is not None
        assert order is not None
        assert counts is not None
        assert lag is not None
        pace = self._pace
        now = time.monotonic()
        wait_until = self._blocked_until
        if unplayed.rows < pace.enough_rows:
            wait_until = max(wait_until, self._next_poll)
        if now < wait_until:
            time.sleep(min(wait_until - now, wait_ms / 1000))
            return
        unplayed.read_added()
        brought = unplayed.poll(self.writer.number, FRESH_MS if self._has_more else 0)
        self._has_more = brought and unplayed.behind(unplayed.queues)
        if not self._has_more:
            self._next_poll = time.monotonic() + pace.interval / POLLS
        lag.look(learning, unplayed)
        self._log.tell_of_lag(self.metrics.unlearned_batches)
        if not pace.is_due(unplayed.rows):
            return
        # Trap: a fetch is answered with what comes first, and lies there until the next poll sends
        # another: the poll above brought what is as old as the last state, this brings the rest.
        unplayed.poll(self.writer.number, FRESH_MS)
        # A partition of which nothing waits holds back others: one poll for it, and in a backlog
        # more, as long as something comes.
        until = time.monotonic() + pace.interval
        while unplayed.has_unread() and unplayed.poll(self.writer.number, 50):
            if not pace.in_backlog or time.monotonic() > until:
                break
        try:
            due = order.take(pace.most_rows)
            if not due.sent and not due.labels:
                pace.wait()
                self._blocked_until = time.monotonic() + pace.interval / POLLS
                return
            played = learning.play(due.sent, due.labels, due.until, self.writer.number)
            self._sender.refuse_answers(played)
            counts.count(played)
            self._write(learning, played)
            self._log.tell_of_backlog(played, unplayed.has_deferred)
            self._log.tell_of_alarms(learning.learner.episodes)
        except RegistryAway:
            raise
        except RetryError as error:  # records have left their queues
            raise RebuildError(str(error)) from error

    def _write(self, learning: TopicLearner, played: PlayedRecords | None) -> None:
        """Write a state and the other results of playing; say when the next one is due."""
        begin = time.monotonic()
        size, told_bytes = self.writer.write_state(learning, played)
        if played is not None and self._counts is not None:
            self._counts.committed(time.monotonic() - begin, size + told_bytes)
        rows = 0 if self._unplayed is None else self._unplayed.rows
        self._pace.wrote(begin, size, rows)

    def commit(self) -> None:
        """Do nothing: everything played is in a state already."""

    def close(self) -> None:
        """Close the readers."""
        self.drop()
