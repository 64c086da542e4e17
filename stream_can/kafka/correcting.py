"""The loop of ``stream-can run``: consume, correct by the newest state, produce; exactly once.

A transaction holds outputs, dead letters, one sent batch a partition, and the offsets of the input.
Nothing is kept between two of them. Whatever goes wrong, what was read is given up, and the loop
begins again at the committed offsets.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stream_can.app.health import Health
from stream_can.app.known import Handled
from stream_can.app.letters import KEPT, letter
from stream_can.app.metrics import Metrics
from stream_can.app.tally import Tally
from stream_can.kafka import refusals
from stream_can.kafka.client.accepts import OVERHEAD_BYTES, Accepts, weight
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RebuildError
from stream_can.kafka.client.member import Assignment
from stream_can.kafka.client.transaction import Offset
from stream_can.kafka.corrections import Correcting, Corrections, CurrentState
from stream_can.kafka.following import Follower
from stream_can.kafka.memory import identity_of
from stream_can.kafka.partitions import UnreadableRecord
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import TaskStart
from stream_can.kafka.state import MARK_HEADER, STATE_HEADER, Index
from stream_can.kafka.topics import topics_of
from stream_can.learner.sent import SentBatch
from stream_can.messages.records import Counts, Output, Result, place

__all__ = ["Work"]

log = logging.getLogger(__name__)

BACKLOG_SECONDS = 10.0
"""Records older than this are of a backlog."""
LAG_SECONDS = 5.0
"""How old the lag of /metrics may be."""
ALIVE_SECONDS = 3.0
"""A learner that wrote no state for so long is not waited for."""


class Work:
    """Corrects the partitions that the group gives it; see :class:`stream_can.kafka.loop.Role`.

    Parameters
    ----------
    settings, start
        The topics and rules, and what reads messages.
    metrics, health
        Told of what was done.
    ready
        Whether a record can be read now; one that cannot holds back what follows it in its
        partition.
    """

    def __init__(
        self,
        settings: Settings,
        start: TaskStart,
        metrics: Metrics,
        health: Health,
        ready: Callable[[Any], bool] | None = None,
    ) -> None:
        self.settings, self.start, self._ready = settings, start, ready
        self.metrics, self.health = metrics, health
        self._tallies: dict[int, Tally] = {}
        self._lag_asked = 0.0
        self.client = Client(
            settings.bootstrap_servers, settings.application_id, settings.name,
            input=settings.input, options=settings.client, compression=settings.compression,
            skip_damaged=settings.skip_damaged,
        )  # fmt: skip
        self._identity = identity_of(settings, start)
        self.state_topic, self.dead_letters = settings.own_topics
        self.follower = Follower(self.client.options, self.state_topic, self._require)
        self._told_of_values = False
        self._written = 0
        """Bytes of sent batches in the transaction."""
        self._known = 0
        """How many partitions all topics had when they were last looked at."""
        self.committed = 0
        """Records, of all transactions of this process."""
        self._token: Any = None
        self._at: dict[int, int] = {}
        """Partition -> the next offset to read, where it is ours."""
        self._open: set[int] = set()
        """Partitions with something that is not committed."""
        self._handled = 0
        self._due = 0.0
        self._blocked: float | None = None
        self._held: dict[int, list[Any]] = {}
        """Records that were read and wait until they can be read into."""

    def check(self) -> None:
        """Check topics, rights and sizes; make missing topics, where we may."""
        s = self.settings
        own = topics_of(s, corrects=True, learns=False, state_bytes=self.start.state_bytes)
        counts = self.client.check_topics({}, own, create=s.create_topics)
        self._known = min(counts.values())
        limit = self.client.transaction.limits[s.output] - OVERHEAD_BYTES
        self._correcting = Correcting(
            s.fields, self.start.formats, self.start.segments, max_bytes=limit,
            fail=s.errors == "fail",
        )  # fmt: skip

    def _require(self, index: Index) -> None:
        """Raise DeniedError where a state is of another application."""
        found = [
            f"{name} is {index.identity.get(name)!r} there and {own!r} here"
            for name, own in self._identity.items()
            if index.identity.get(name) != own
        ]
        if found:
            raise DeniedError(
                f"topic {self.state_topic!r} holds the state of other settings:"
                f" {'; '.join(found)}; set these back, or begin anew with stream-can learn --reset"
                " or under another application_id"
            )

    # -- partitions ------------------------------------------------------------------------------

    def drop(self) -> None:
        """Forget what is not committed."""
        self.metrics.given_up("aborted")
        self.health.ready = False
        self._token, self._at, self._held = None, {}, {}
        self._open, self._handled, self._written = set(), 0, 0

    def take_over(self, assignment: Assignment) -> None:
        """Begin at the committed offsets of the partitions that are ours now."""
        begin = time.monotonic()
        self.drop()
        self.client.transaction.abort()
        state = self.follower.look()
        if assignment.token is None or state is None:
            return
        for partition in assignment.partitions:
            at = self._begin_at(partition, state)
            self.client.member.start_at(self.settings.input, partition, at)
            self._at[partition] = at
        self._token = assignment.token
        self._tallies = {p: self._new_tally() for p in self._at}
        skew = self.client.transaction.clock.skew
        self.metrics.restored(self._tallies, time.monotonic() - begin, skew)
        self.health.ready = True
        log.info("partitions %s, by state %d", list(assignment.partitions), state.number)

    def _new_tally(self) -> Tally:
        return Tally((), lambda name: 0, named=False, sets=False)

    def _begin_at(self, partition: int, state: CurrentState) -> int:
        s, member = self.settings, self.client.member
        found = member.committed(partition)[s.input]
        begin, end = member.span(s.input, partition)
        learned, where = state.index.inputs.get(partition, 0), f"partition {partition} of {s.input}"
        if found is None and not learned:
            return begin if s.start == "earliest" else end
        if found is None:
            wrong = f"the group has no offset there, though {learned} were learned"
        elif found.offset > end:
            wrong = f"the group is at {found.offset}, and the topic ends at {end}"
        elif found.offset < begin:
            wrong = f"records from {found.offset} to {begin - 1} are gone"
        else:
            return found.offset
        if not s.reset_offsets:
            raise DeniedError(
                f"{where}: {wrong}; --reset-offsets goes on"
                f" {'at its beginning' if s.start == 'earliest' else 'at its end'}"
            )
        log.warning("%s: %s; going on", where, wrong)
        gap = found is not None and found.offset < begin
        return begin if gap or s.start == "earliest" else end

    # -- records ---------------------------------------------------------------------------------

    @property
    def left(self) -> float:
        """Seconds until the next commit, where something is to be committed by then."""
        return max(0.0, self._due - time.monotonic())

    def room(self, state: CurrentState) -> int:
        """How many records may be read now: in a backlog the learner keeps up."""
        room = self.settings.commit_every - self._handled
        if self._blocked is None:
            return room
        learned, lead = state.index.inputs, self.settings.lead
        ahead = sum(max(0, at - learned.get(p, at)) for p, at in self._at.items())
        if ahead < lead:
            return min(room, max(lead - ahead, 1))
        since = max(self._blocked, self.follower.at)
        return 0 if time.monotonic() - since < ALIVE_SECONDS else room

    def step(self, wait_ms: int) -> None:
        """Poll once; correct what comes, and commit when it is time."""
        state = self.follower.look()
        if state is None:
            time.sleep(wait_ms / 1000)
            return
        member, room = self.client.member, self.room(state)
        if self._open and room > 0:
            wait_ms = min(wait_ms, max(1, int(1000 * self.left)))
        if room > 0:
            found = member.poll(wait_ms, min(room, self.settings.lead))
        else:
            time.sleep(min(wait_ms / 1000, 0.01))
            found = {}
        if (assignment := member.take_rebalance()) is not None:
            self.take_over(assignment)
            return
        for (_, partition), records in found.items():
            if partition in self._at:
                self._handle(partition, records, state)
        for partition in list(self._held):
            self._handle(partition, [], state)
        if self._open and (not self.left or self._handled >= self.settings.commit_every):
            self.commit()
        self._ask_lag()

    def _ask_lag(self) -> None:
        """For /metrics and the page."""
        due = time.monotonic() - self._lag_asked >= LAG_SECONDS
        if not due or not self._at or self.client.member.rebalanced:
            return
        self._lag_asked = time.monotonic()
        topic = self.settings.input
        lag = self.client.member.lag((topic, p) for p in self._at)
        self.metrics.lags({("input", p): n for (_, p), n in lag.items()})

    def _handle(self, partition: int, records: Sequence[Any], state: CurrentState) -> None:
        """Correct records; put what comes of them into the transaction."""
        records = [*self._held.pop(partition, ()), *records]
        if self._ready is not None:
            n = next((i for i, one in enumerate(records) if not self._ready(one)), len(records))
            if n < len(records):
                self._held[partition] = records[n:]
            self.client.member.hold(self.settings.input, partition, n < len(records))
            records = records[:n]
        if not records:
            return
        s, transaction = self.settings, self.client.transaction
        backlog = time.time() - records[-1].timestamp / 1000 > BACKLOG_SECONDS
        self._blocked = (self._blocked or time.monotonic()) if backlog else None
        made = self._correcting.correct(records, state)
        topics, now = transaction.accepts, transaction.clock.now_ms()
        self._divert(made, topics[s.output], now)
        refusals.date(made.dead_letters, topics[self.dead_letters], now)
        self._require_fits(made.dead_letters)
        last = records[-1].offset if made.stopped is None else made.stopped[0].offset - 1
        if not self._open:
            self._due = time.monotonic() + s.commit_interval_ms / 1000
        with self._made_of(partition, records):
            if partition not in self._open:
                transaction.expect((s.sent_topic, partition))
            transaction.send_all(s.output, partition, made.outputs)
            transaction.send_all(self.dead_letters, partition, made.dead_letters)
            if made.sent is not None:
                self._send(partition, made.sent, state)
        self._open.add(partition)
        self._at[partition] = last + 1
        n = len(made.outputs) + len(made.dead_letters)
        self._handled += n
        tally, now_s = self._tallies[partition], time.time()
        tally.answered(n, made.corrected)
        tally.counts["dead_letters"] += len(made.dead_letters)
        ours = s.field_names
        letters = [letter(out, now_s, ours) for out in made.dead_letters[-KEPT:]]
        self.metrics.handled(
            Handled(len(made.outputs), made.normalised, len(made.faults), letters=letters)
        )
        if made.faults and not self._told_of_values:
            self._told_of_values = True
            faulty, fault = made.faults[0]
            log.warning("%s: %s; others are not told of", place(faulty), fault)
        if made.stopped is not None:
            record, error = made.stopped
            self.commit()
            raise UnreadableRecord(f"{place(record)}: {error}") from error

    def _divert(self, made: Corrections, output: Accepts, now: int) -> None:
        """What the output topic refuses becomes a dead letter."""
        result, counts = Result(made.outputs, made.dead_letters, [], None), Counts()
        refusals.divert(result, counts, output, now, fail=self.settings.errors == "fail")
        made.outputs = result.outputs
        made.corrected += counts.corrected

    def _send(self, partition: int, batch: SentBatch, state: CurrentState) -> None:
        """What the learner gets, in records that its topic takes."""
        topic, transaction = self.settings.sent_topic, self.client.transaction
        limit = transaction.limits.get(topic, 1 << 20) - 1024
        data = batch.to_bytes()
        if len(data) > limit and len(batch) > 1:
            half = len(batch) // 2
            self._send(partition, batch.part(0, half), state)
            self._send(partition, batch.part(half, len(batch)), state)
            return
        headers = [
            (STATE_HEADER, b"%d" % state.number), (MARK_HEADER, state.index.mark.encode())
        ]  # fmt: skip
        transaction.send(topic, partition, None, data, headers)
        self._written += len(data)

    def _require_fits(self, letters: Sequence[Output]) -> None:
        """Brokers would refuse a larger dead letter, again after each failure."""
        limit = self.client.transaction.limits[self.dead_letters]
        for out in letters:
            if (size := weight(out)) > limit:
                assert out.source is not None
                raise DeniedError(
                    f"a dead letter of {size} bytes does not fit {self.dead_letters!r}"
                    f" (max.message.bytes={limit}): {place(out.source)}; raise the topic's limit"
                )

    @contextlib.contextmanager
    def _made_of(self, partition: int, records: Sequence[Any]) -> Any:
        """A record that the brokers refuse: say which part of the input it was made of."""
        try:
            yield
        except DeniedError as error:
            made_of = (
                f"offsets {records[0].offset} to {records[-1].offset} of"
                f" {self.settings.input}-{partition}"
            )
            raise type(error)(f"{error} (made of {made_of})") from error

    def commit(self) -> None:
        """Commit what was done since the last time, if anything."""
        if not self._open or self.client.member.rebalanced:
            return  # after a rebalance the next step gives it up
        offsets: Mapping[Any, Offset] = {
            (self.settings.input, p): Offset(self._at[p], "") for p in sorted(self._open)
        }
        begin = time.monotonic()
        try:
            self.client.commit(offsets, self._token)
        except RebuildError:
            self.metrics.given_up("unknown")
            raise
        done = {p: self._tallies[p] for p in self._open}
        self.metrics.committed(done, time.monotonic() - begin, self._written)
        self.committed += self._handled
        self._open, self._handled, self._written = set(), 0, 0

    def close(self) -> None:
        """Let go of the topic of states."""
        self.follower.close()
