"""The loop of ``stream-can run``: consume, correct by the newest state, produce, exactly once.

A transaction holds outputs, dead letters, one sent batch per partition, and the input offsets.
No state is kept between transactions. On any error the uncommitted work is dropped and the loop
resumes at the committed offsets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from stream_can.app.health import Health
from stream_can.app.metrics import Metrics
from stream_can.app.start import Start
from stream_can.errors import StreamCANError
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import RebuildError, RetryError
from stream_can.kafka.client.member import Assignment
from stream_can.kafka.corrections import UnreadableRecord
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.following import Follower
from stream_can.kafka.handing import ANSWER_SECONDS, Handing
from stream_can.kafka.identity import require_fits, require_identity
from stream_can.kafka.learner_watch import QUIET_SECONDS, LearnerWatch
from stream_can.kafka.progress import LagWatch, Progress
from stream_can.kafka.record_handler import RecordHandler
from stream_can.kafka.schema_lookups import RegistryAway, SchemaLookups
from stream_can.kafka.settings import Settings
from stream_can.kafka.topics import topics_of

__all__ = ["CorrectingRole"]

log = logging.getLogger(__name__)

WAITING_MS = 10
"""Milliseconds between two looks for a newer state while partitions wait for one."""


class CorrectingRole:
    """Corrects the partitions assigned by the group; implements
    :class:`stream_can.kafka.loop.Role`.

    Parameters
    ----------
    settings, start
        Topics and rules, and the source of initial correctors and readers.
    metrics, health
        Receive counts and status.
    lookups
        Tell whether a record can be read now, or a schema registry must be asked first; such a
        record holds back those behind it in its partition.
    """

    def __init__(
        self,
        settings: Settings,
        start: Start,
        metrics: Metrics,
        health: Health,
        lookups: SchemaLookups | None = None,
    ) -> None:
        settings.require_input()
        self.settings, self.start, self._lookups = settings, start, lookups
        self.metrics, self.health = metrics, health
        self.client = Client(
            settings.bootstrap_servers, settings.application_id, settings.name,
            input=settings.input, options=settings.client, compression=settings.compression,
            skip_damaged=settings.skip_damaged,
        )  # fmt: skip
        self.follower = Follower(
            self.client.options,
            settings.state_topic,
            lambda index: require_identity(index, settings, start),
            settings.switch,
        )
        self.handing = Handing()
        self.handler = RecordHandler(
            settings, start, metrics, self.client, self.follower, self.handing, lookups
        )
        self._watch = LearnerWatch(settings.state_topic)
        self._progress, self._lag = Progress(), LagWatch(metrics)
        self.more_to_show: Callable[[], str] = str
        """Text appended to the progress line on a terminal."""
        self._left: list[int] = []
        """Assigned partitions that some topic lacks so far; they are not processed."""
        self._looked = 0.0
        self._told: dict[str, int] = {}
        """Number of partitions of each topic at the last check."""
        self.known = self.committed = 0
        """Number of partitions of all topics when last queried, and of records committed here."""
        self._ids: dict[str, str] = {}
        """Id of the input that is being read."""
        self._made_again = False
        """Whether the input was deleted and made again since the last commit."""
        self._token: Any = None
        self.learning_ended: StreamCANError | None = None
        """Why the learner of this process ended for good, if it did."""

    def check(self) -> None:
        """Check topics, rights and sizes; create missing topics where allowed."""
        s = self.settings
        own_topics = topics_of(s, corrects=True, learns=False, state_bytes=self.start.state_bytes)
        counts = self.client.check_topics({}, own_topics, create=s.create_topics)
        self.known = min(counts.values())
        if max(counts.values()) > self.known and counts != self._told:
            log.warning(
                "topics have different numbers of partitions (%s): working the %d that all have,"
                " and the others as soon as all have them",
                ", ".join(f"{name} {count}" for name, count in sorted(counts.items())),
                self.known,
            )
        self._told = counts
        self.handler.use_limit()

    def drop(self) -> None:
        """Drop uncommitted work."""
        self.metrics.given_up("aborted")
        self.health.ready = False
        self._token = None
        self.handler.drop()

    def take_over(self, assignment: Assignment) -> None:
        """Resume at the committed offsets of the newly assigned partitions."""
        begin = time.monotonic()
        self.drop()
        self.client.transaction.abort()
        state = self.follower.look()
        if assignment.token is None or state is None:
            return
        self.require_fits(state)
        if assignment.partitions and assignment.partitions[-1] >= self.known:
            self.check()  # partitions were added: other topics must follow
        self._left = [p for p in assignment.partitions if p >= self.known]
        self._looked = time.monotonic()
        former_ids, self._ids = self._ids, self.client.topic_ids([self.settings.input])
        self._made_again |= bool(former_ids) and former_ids != self._ids
        self.client.member.leave_alone(self._left)
        partitions = [p for p in assignment.partitions if p not in self._left]
        n_unread = self.handler.resume(partitions, state.index, made_again=self._made_again)
        self._token = assignment.token
        skew = self.client.transaction.clock.skew
        self.metrics.restored(self.handler.tallies, time.monotonic() - begin, skew)
        self.health.ready = True
        log.info("partitions %s, by state %d; %s records to read",
                 partitions, state.number, f"{n_unread:,}")  # fmt: skip

    def require_fits(self, state: CurrentState) -> None:
        """Raise DeniedError where a state did not begin as the settings say."""
        require_fits(state.begins[None], state.correctors.items(), self.settings, self.start)

    def step(self, wait_ms: int) -> None:
        """Poll once, correct the records, and commit when due."""
        state = self.follower.look()
        if state is None:
            self._watch.look_stateless()
            time.sleep(wait_ms / 1000)
            return
        self.handing.look(state.index.answered, self.follower.written)
        self.metrics.handed_over(self.handing.backlog)
        self._require_answers()
        self.health.unlearned = self._watch.look(self.follower.written, self.handing.waiting)
        member, handler = self.client.member, self.handler
        if handler.open.partitions:
            wait_ms = min(wait_ms, max(1, int(1000 * handler.open.seconds_left)))
        if handler.held.waiting:
            wait_ms = min(wait_ms, WAITING_MS)
        polled = member.poll(wait_ms, self.settings.commit_every - handler.open.handled)
        if (assignment := member.take_rebalance()) is not None:
            try:
                self.take_over(assignment)
            except RetryError as error:  # half done, and the assignment event is consumed
                raise RebuildError(str(error)) from error
            return
        try:
            for (_, partition), records in polled.items():
                if partition in handler.at:
                    self._handle(partition, records, state)
            for partition in handler.held.due(state.index):
                self._handle(partition, [], state)
        except RegistryAway:
            raise
        except RetryError as error:  # polled records are not delivered again
            raise RebuildError(str(error)) from error
        if handler.open.is_due(self.settings.commit_every):
            self.commit()
        if self._lookups is not None:
            self.health.waits_for = self._lookups.trouble
        self._look_for_more()
        self._lag.look(member, handler.at)
        self._progress.show(self.committed, self._lag.total, self.more_to_show)

    def _handle(self, partition: int, records: Sequence[Any], state: CurrentState) -> None:
        """Handle records of a partition; commit what is before one that cannot be read."""
        try:
            self.handler.handle(partition, records, state)
        except UnreadableRecord:
            self.commit()
            raise

    def _require_answers(self) -> None:
        """Raise the error that ended the learner of this process where something waits for answers
        and no other learner gives any: another start may, and nobody sees a worker that waits."""
        quiet = time.monotonic() - self.follower.written > ANSWER_SECONDS
        if self.learning_ended is not None and quiet and self.handing.waiting:
            raise self.learning_ended

    def _look_for_more(self) -> None:
        """Start processing assigned partitions that all topics have by now, and check that every
        input partition is assigned. Done between transactions, as often as the client refreshes
        metadata; soon where no learner answers what was handed over: a topic may be gone."""
        now, seconds = time.monotonic(), self.client.options.seconds("metadata_max_age")
        quiet = bool(self.handler.held.waiting) and now - self.follower.written > QUIET_SECONDS
        between = self._token is not None and not self.handler.open.partitions
        if not between or now - self._looked < (min(QUIET_SECONDS, seconds) if quiet else seconds):
            return
        self._looked = now
        self.client.member.share_out()
        if self._left or quiet:
            self.check()  # other processes ask too, after an error
            if self._left and self._left[0] < self.known:
                self.client.member.ask_again()

    def commit(self) -> None:
        """Commit the open transaction, if any."""
        handler, work = self.handler, self.handler.open
        if not work.partitions or self.client.member.rebalanced:
            return  # after a rebalance the next step drops it
        offsets = {(self.settings.input, p): handler.at[p] for p in sorted(work.partitions)}
        notes = {(self.settings.input, p): self.handing.note(p) for p in work.partitions}
        begin = time.monotonic()
        self.client.require_same(self._ids)
        try:
            self.client.commit(offsets, self._token, notes)
        except RebuildError:
            self.metrics.given_up("unknown")
            raise
        done = {p: handler.tallies[p] for p in work.partitions}
        self.metrics.committed(done, time.monotonic() - begin, work.written)
        self.committed += work.handled
        self._watch.sent()
        self._made_again = False
        work.clear()

    def close(self) -> None:
        """Close the reader of states."""
        self._progress.end()
        self.follower.close()
