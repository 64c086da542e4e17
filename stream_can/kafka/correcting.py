"""The loop of ``stream-can run``: consume, correct by the newest state, produce; exactly once.

A transaction holds outputs, dead letters, one sent batch a partition, and the offsets of the input.
Nothing is kept between two of them. Whatever goes wrong, what was read is given up, and the loop
begins again at the committed offsets.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stream_can.app.health import Health
from stream_can.app.known import Handled
from stream_can.app.letters import KEPT, letter
from stream_can.app.metrics import Metrics
from stream_can.app.tally import Tally
from stream_can.errors import StreamCANError
from stream_can.kafka import refusals
from stream_can.kafka.behind import is_backlog
from stream_can.kafka.client.accepts import OVERHEAD_BYTES, weight
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RebuildError, RetryError
from stream_can.kafka.client.member import Assignment
from stream_can.kafka.corrections import Correcting, CurrentState
from stream_can.kafka.following import Follower
from stream_can.kafka.memory import require_identity
from stream_can.kafka.progress import Progress
from stream_can.kafka.schemas import Asked, RegistryAway
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import KafkaStart
from stream_can.kafka.state import NEXT_HEADER, headers_by
from stream_can.kafka.topics import topics_of
from stream_can.learner.sent import SentBatch
from stream_can.messages.records import Output, Source, place

__all__ = ["UnreadableRecord", "Work"]

log = logging.getLogger(__name__)

LAG_SECONDS = 5.0
"""How old the lag of /metrics may be."""
STATE_MS = 2
"""Between two looks for the next state, where it is waited for."""
ALIVE_SECONDS = 3.0
"""A learner that wrote no state for so long is not waited for."""


NO_ROWS = SentBatch([], np.zeros(0, np.int64), np.zeros(0), [], np.zeros(0, np.int32), {})


class UnreadableRecord(StreamCANError):
    """A record cannot be read, and ``errors="fail"`` says to stop there."""


def offset_of(record: Source) -> str:
    """Where a record is, for a message."""
    return f"offset {record.offset} of {record.topic}-{record.partition}"


class Work:
    """Corrects the partitions that the group gives it; see :class:`stream_can.kafka.loop.Role`.

    Parameters
    ----------
    settings, start
        The topics and rules, and what reads messages.
    metrics, health
        Told of what was done.
    asked
        Says whether a record can be read now, where a registry has to be asked; one that cannot
        holds back what follows it in its partition.
    """

    def __init__(
        self,
        settings: Settings,
        start: KafkaStart,
        metrics: Metrics,
        health: Health,
        asked: Asked | None = None,
    ) -> None:
        settings.require_input()
        self.settings, self.start, self._asked = settings, start, asked
        self.metrics, self.health = metrics, health
        self._tallies: dict[int, Tally] = {}
        self._lag_asked = 0.0
        self.client = Client(
            settings.bootstrap_servers, settings.application_id, settings.name,
            input=settings.input, options=settings.client, compression=settings.compression,
            skip_damaged=settings.skip_damaged,
        )  # fmt: skip
        self.state_topic, self.dead_letters = settings.state_topic, settings.dead_letters
        self.follower = Follower(
            self.client.options,
            self.state_topic,
            lambda index: require_identity(index, settings, start),
        )
        self._progress = Progress()
        self.more_to_show: Callable[[], str] = str
        """More words for a terminal."""
        self._lag: int | None = None
        self._told_of_values = False
        self._written = 0
        """Bytes of sent batches in the transaction."""
        self._left: list[int] = []
        """Ours, and not in all topics yet: nothing is done with these."""
        self._looked = 0.0
        self._told: dict[str, int] = {}
        """How many partitions each topic had at the last check."""
        self.known = 0
        """How many partitions all topics had when they were last looked at."""
        self.committed = 0
        """Records, of all transactions of this process."""
        self._token: Any = None
        self._at: dict[int, int] = {}
        """Partition -> the next offset to read, where it is ours."""
        self._from: dict[int, int] = {}
        """And the first one that was read."""
        self._open: set[int] = set()
        """Partitions with something that is not committed."""
        self._handled = 0
        self._due = 0.0
        self._blocked: float | None = None
        self._held: dict[int, list[Any]] = {}
        """Records that were read and wait until they can be read into."""
        self._times: dict[int, float] = {}
        """Latest time that was corrected, of partitions of ours."""
        self._ahead: set[int] = set()
        """Partitions that are not read for now, since others are behind."""

    def check(self) -> None:
        """Check topics, rights and sizes; make missing topics, where we may."""
        s = self.settings
        own = topics_of(s, corrects=True, learns=False, state_bytes=self.start.state_bytes)
        counts = self.client.check_topics({}, own, create=s.create_topics)
        self.known = min(counts.values())
        if max(counts.values()) > self.known and counts != self._told:
            log.warning(
                "topics have different numbers of partitions (%s): working the %d that all have,"
                " and the others as soon as all have them",
                ", ".join(f"{name} {count}" for name, count in sorted(counts.items())),
                self.known,
            )
        self._told = counts
        limit = self.client.transaction.limits[s.output] - OVERHEAD_BYTES
        self._correcting = Correcting(
            s.fields, self.start.formats, self.start.segments, max_bytes=limit,
            fail=s.errors == "fail",
        )  # fmt: skip

    # -- partitions ------------------------------------------------------------------------------

    def drop(self) -> None:
        """Forget what is not committed."""
        self.metrics.given_up("aborted")
        self.health.ready = False
        self._token, self._at, self._held = None, {}, {}
        self._times, self._ahead = {}, set()
        self._open, self._handled, self._written = set(), 0, 0

    def take_over(self, assignment: Assignment) -> None:
        """Begin at the committed offsets of the partitions that are ours now."""
        begin = time.monotonic()
        self.drop()
        self.client.transaction.abort()
        state = self.follower.look()
        if assignment.token is None or state is None:
            return
        if assignment.partitions and assignment.partitions[-1] >= self.known:
            self.check()  # partitions were added: the other topics have them too, or will have
        self._left = [p for p in assignment.partitions if p >= self.known]
        self._looked = time.monotonic()
        self.client.member.leave_alone(self._left)
        for partition in assignment.partitions:
            if partition in self._left:
                continue
            at = self._begin_at(partition, state)
            self.client.member.start_at(partition, at)
            self._at[partition] = self._from[partition] = at
        self._token = assignment.token
        self._tallies = {p: self._new_tally() for p in self._at}
        skew = self.client.transaction.clock.skew
        self.metrics.restored(self._tallies, time.monotonic() - begin, skew)
        self.health.ready = True
        log.info("partitions %s, by state %d", list(self._at), state.number)

    def _new_tally(self) -> Tally:
        return Tally((), lambda name: 0, named=self.settings.has_lanes, sets=False)

    def _begin_at(self, partition: int, state: CurrentState) -> int:
        s, member = self.settings, self.client.member
        at, (begin, end) = member.committed(partition), member.span(partition)
        learned, where = state.index.inputs.get(partition, 0), f"partition {partition} of {s.input}"
        if at is None and not learned:
            return begin if s.start == "earliest" else end
        if at is None:
            wrong = f"the group has no offset there, though {learned} were learned"
        elif at > end:
            wrong = f"the group is at {at}, and the topic ends at {end}"
        elif at < begin:
            wrong = f"records from {at} to {begin - 1} are gone"
        else:
            return at
        if not s.reset_offsets:
            raise DeniedError(
                f"{where}: {wrong}; --reset-offsets goes on"
                f" {'at its beginning' if s.start == 'earliest' else 'at its end'}"
            )
        log.warning("%s: %s; going on", where, wrong)
        gap = at is not None and at < begin
        return begin if gap or s.start == "earliest" else end

    # -- records ---------------------------------------------------------------------------------

    @property
    def left(self) -> float:
        """Seconds until the next commit, where something is to be committed by then."""
        return max(0.0, self._due - time.monotonic())

    def room(self, state: CurrentState) -> int:
        """How many records may be read now: in a backlog the learner keeps up."""
        room = self.settings.commit_every - self._handled
        if not self._waits:
            return room
        learned, lead = state.index.inputs, self.settings.lead
        ahead = sum(max(0, at - learned.get(p, self._from[p])) for p, at in self._at.items())
        return max(0, min(room, lead - ahead))

    @property
    def _waits(self) -> bool:
        """Whether the learner is waited for: in a backlog, while there is one."""
        if self._blocked is None:
            return False
        return time.monotonic() - max(self._blocked, self.follower.at) < ALIVE_SECONDS

    def _hold_ahead(self, state: CurrentState) -> bool:
        """In a backlog, read nothing of partitions that are further than those that are furthest
        behind, by as much as labels do not wait; whether that is all of ours."""
        until = state.index.until if self._waits else None
        limit = math.inf if until is None else until + self.settings.label_wait / 2
        ahead = {p for p in self._at if self._times.get(p, -math.inf) > limit}
        for p in ahead ^ self._ahead:
            self.client.member.hold(p, p in ahead or p in self._held)
        self._ahead = ahead
        return bool(ahead) and len(ahead) == len(self._at)

    def step(self, wait_ms: int) -> None:
        """Poll once; correct what comes, and commit when it is time."""
        state = self.follower.look()
        if state is None:
            time.sleep(wait_ms / 1000)
            return
        member, all_ahead, room = self.client.member, self._hold_ahead(state), self.room(state)
        if self._open and room > 0:
            wait_ms = min(wait_ms, max(1, int(1000 * self.left)))
        if all_ahead or room == 0:  # until the next state
            wait_ms = min(wait_ms, STATE_MS)
        if room > 0:  # of all that are ahead nothing comes, and the group goes on
            found = member.poll(wait_ms, min(room, self.settings.lead))
        else:
            time.sleep(wait_ms / 1000)
            found = {}
        if (assignment := member.take_rebalance()) is not None:
            self.take_over(assignment)
            return
        try:
            for (_, partition), records in found.items():
                if partition in self._at:
                    self._handle(partition, records, state)
            for partition in list(self._held):
                self._handle(partition, [], state)
        except RegistryAway:
            raise
        except RetryError as error:  # what was read comes in no later poll
            raise RebuildError(str(error)) from error
        # Where the learner is waited for, it waits for this.
        full = self._handled >= self.settings.commit_every
        waits = self._hold_ahead(state) or self.room(state) == 0
        if self._open and (not self.left or full or waits):
            self.commit()
        if self._asked is not None:
            self.health.waits_for = self._asked.trouble
        self._look_for_more()
        self._ask_lag()
        self._progress.show(self.committed, self._lag, self.more_to_show)

    def _look_for_more(self) -> None:
        """Begin with partitions of ours that all topics have by now, and see that each of the input
        is somebody's. Asked between transactions, as often as a client looks at its topics."""
        age = time.monotonic() - self._looked
        between = self._token is not None and not self._open
        if not between or age < self.client.options.seconds("metadata_max_age"):
            return
        self._looked = time.monotonic()
        self.client.member.share_out()
        if self._left:
            self.check()  # which others ask too, after an error
            if self._left[0] < self.known:
                self.client.member.ask_again()

    def _ask_lag(self) -> None:
        """For /metrics and the page."""
        due = time.monotonic() - self._lag_asked >= LAG_SECONDS
        if not due or not self._at or self.client.member.rebalanced:
            return
        self._lag_asked = time.monotonic()
        lag = self.client.member.lag(self._at)
        self._lag = sum(lag.values())
        self.metrics.lags({("input", p): n for p, n in lag.items()})

    def _handle(self, partition: int, records: Sequence[Any], state: CurrentState) -> None:
        """Correct records; put what comes of them into the transaction."""
        records = [*self._held.pop(partition, ()), *records]
        if self._asked is not None:
            ready = self._asked.ready
            n = next((i for i, one in enumerate(records) if not ready(one)), len(records))
            if n < len(records):
                self._held[partition] = records[n:]
            self.client.member.hold(partition, n < len(records) or partition in self._ahead)
            records = records[:n]
        if not records:
            return
        s, transaction = self.settings, self.client.transaction
        backlog = is_backlog(records[-1].timestamp / 1000)
        self._blocked = (self._blocked or time.monotonic()) if backlog else None
        made = self._correcting.correct(records, state)
        topics, now = transaction.accepts, transaction.clock.now_ms()
        kept, refused = refusals.divert(
            made.outputs, topics[s.output], now, fail=s.errors == "fail"
        )
        if refused:
            made.outputs, made.dead_letters = kept, made.dead_letters + refused
            made.corrected = sum(one.value is not None for one in kept)
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
            self._send(partition, made.sent or NO_ROWS, last + 1, state)
        if made.sent is not None:
            latest = np.nanmax(made.sent.times, initial=-math.inf)
            self._times[partition] = max(self._times.get(partition, latest), latest)
        self._open.add(partition)
        self._at[partition] = last + 1
        n = len(made.outputs) + len(made.dead_letters)
        self._handled += n
        tally, now_s = self._tallies[partition], time.time()
        tally.answered(n, made.corrected)
        tally.refused += state.refused
        state.refused = 0
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
            raise UnreadableRecord(f"{offset_of(record)}: {error}") from error

    def _send(self, partition: int, batch: SentBatch, at: int, state: CurrentState) -> None:
        """Send the learner's part, in records that its topic takes; ``at`` is the next offset."""
        topic, transaction = self.settings.sent_topic, self.client.transaction
        limit = transaction.limits.get(topic, 1 << 20) - 1024
        headers = headers_by(state.number, state.index.mark)
        for data, n in batch.pieces(limit):
            behind = at if n == len(batch) else int(batch.numbers[n])
            transaction.send(
                topic, partition, None, data, [*headers, (NEXT_HEADER, b"%d" % behind)]
            )
            self._written += len(data)

    def _require_fits(self, letters: Sequence[Output]) -> None:
        """Brokers would refuse a larger dead letter, again after each failure."""
        limit = self.client.transaction.limits[self.dead_letters]
        for out in letters:
            if (size := weight(out)) > limit:
                assert out.source is not None
                raise DeniedError(
                    f"a dead letter of {size} bytes does not fit {self.dead_letters!r}"
                    f" (max.message.bytes={limit}): {offset_of(out.source)}; raise the limit"
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
        offsets = {(self.settings.input, p): self._at[p] for p in sorted(self._open)}
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
        self._progress.end()
        self.follower.close()
