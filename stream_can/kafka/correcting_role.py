"""The loop of ``stream-can run``: consume, correct by the newest state, produce, exactly once.

A transaction holds outputs, dead letters, one sent batch per partition, and the input offsets.
No state is kept between transactions. On any error the uncommitted work is dropped and the loop
resumes at the committed offsets.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from stream_can.app.counts import Handled
from stream_can.app.health import Health
from stream_can.app.letters import KEPT, letter
from stream_can.app.metrics import Metrics
from stream_can.app.start import Start
from stream_can.app.tally import Tally
from stream_can.errors import StreamCANError
from stream_can.kafka import dead_letters
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RebuildError, RetryError
from stream_can.kafka.client.member import Assignment
from stream_can.kafka.client.topic_limits import OVERHEAD_BYTES
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.deferred import pieces_of
from stream_can.kafka.following import Follower
from stream_can.kafka.handing import ANSWER_SECONDS, Handing, Unread, handed_over
from stream_can.kafka.headers import DEFERRED_HEADER, NEXT_HEADER, headers_by
from stream_can.kafka.identity import require_fits, require_identity
from stream_can.kafka.progress import Progress
from stream_can.kafka.record_corrector import RecordCorrector
from stream_can.kafka.schema_lookups import RegistryAway, SchemaLookups
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Index
from stream_can.kafka.times import RecordTimes
from stream_can.kafka.topics import topics_of
from stream_can.learner.sent import NO_ROWS, SentBatch
from stream_can.messages.records import Header, Source

__all__ = ["CorrectingRole", "UnreadableRecord"]

log = logging.getLogger(__name__)

LAG_SECONDS = 5.0
"""Maximum age in seconds of the lag in /metrics."""
LOST_SECONDS = 30.0
"""After so many seconds without a state, though it sends, the log says that nobody learns."""
QUIET_SECONDS = 10.0
"""After so many seconds without a state for which it waits a worker looks for missing topics."""
WAITING_MS = 10
"""Milliseconds between two looks for a newer state while partitions wait for one."""
WAITING_SECONDS = 0.1
"""Seconds between two looks at records that wait under the same state."""


class UnreadableRecord(StreamCANError):
    """A record cannot be read, and ``errors="fail"`` says to stop at it."""


HEADER_ROOM, FEWEST_HEADER_BYTES = 1024, 250
"""Bytes that are left for headers and the batch around a record, and those that they take: what is
larger than that alone is tried all the same."""


def offset_of(record: Source) -> str:
    """Position of a record, for messages."""
    return f"offset {record.offset} of {record.topic}-{record.partition}"


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
        self.settings, self.start, self._asked = settings, start, lookups
        self.metrics, self.health = metrics, health
        self._tallies: dict[int, Tally] = {}
        self._lag_asked = 0.0
        self._tell_stateless_at = 0.0
        """When the log is to say that there is no state; 0 before the first look, inf after."""
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
            settings.switch,
        )
        self._progress = Progress()
        self.more_to_show: Callable[[], str] = str
        """Text appended to the progress line on a terminal."""
        self._lag: int | None = None
        self._written = 0
        """Bytes of the sent batches in the open transaction."""
        self._left: list[int] = []
        """Assigned partitions that some topic lacks so far; they are not processed."""
        self._looked = 0.0
        self._told: dict[str, int] = {}
        """Number of partitions of each topic at the last check."""
        self.known = 0
        """Number of partitions of all topics when last queried."""
        self.committed = 0
        """Records committed by this process."""
        self._ids: dict[str, str] = {}
        """Id of the input that is being read."""
        self._made_again = False
        """Whether the input was deleted and made again since the last commit."""
        self._token: Any = None
        self._at: dict[int, int] = {}
        """Next offset to read of each assigned partition."""
        self._open: set[int] = set()
        """Partitions with uncommitted work."""
        self._handled = 0
        self._due = 0.0
        self._held: dict[int, list[Any]] = {}
        """Records that wait until their schema is known."""
        self.handing = Handing()
        self._waiting: set[int] = set()
        """Partitions whose records wait for the learner."""
        self._waits_under: Index | None = None
        """The index of the state under which these were last looked at."""
        self._waits_since = 0.0
        """When that was."""
        self._began = self._sent_at = time.monotonic()
        """When it began, and when it last committed something."""
        self._lost = False
        """Whether the log has said that nobody learns."""
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
        limit = self.client.transaction.max_bytes[s.output] - OVERHEAD_BYTES
        self._correcting = RecordCorrector(
            s.fields, self.start.formats, self.start.segments, max_bytes=limit,
            fail=s.errors == "fail", rows=s.rows,
            times=RecordTimes(s, self.start.formats).in_seconds,
        )  # fmt: skip

    # -- partitions ------------------------------------------------------------------------------

    def drop(self) -> None:
        """Drop uncommitted work."""
        self.metrics.given_up("aborted")
        self.health.ready = False
        self._token, self._at, self._held = None, {}, {}
        self._waiting = set()
        self._open, self._handled, self._written = set(), 0, 0

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
        notes, reset = dict[int, int](), set[int]()
        for partition in assignment.partitions:
            if partition in self._left:
                continue
            at, note, is_reset = self._begin_at(partition, state)
            if is_reset:
                reset.add(partition)
            if (until := handed_over(note)) is not None:
                notes[partition] = until
            self.client.member.start_at(partition, at)
            self._at[partition] = at
        self._token = assignment.token
        lags = self.client.member.lag(self._at)
        self.handing.take_over(lags, notes, reset)
        self._tallies = {p: self._new_tally() for p in self._at}
        skew = self.client.transaction.clock.skew
        self.metrics.restored(self._tallies, time.monotonic() - begin, skew)
        self.health.ready = True
        log.info("partitions %s, by state %d; %s records to read",
                 list(self._at), state.number, f"{sum(lags.values()):,}")  # fmt: skip

    def require_fits(self, state: CurrentState) -> None:
        """Raise DeniedError where a state began with other classes, columns, paths or counts than
        those of the settings."""
        require_fits(state.begins[None], state.correctors.items(), self.settings, self.start)

    def _new_tally(self) -> Tally:
        return Tally((), lambda name: 0, named=self.settings.has_lanes, sets=False,
                     rows=self.settings.rows)  # fmt: skip

    def _begin_at(self, partition: int, state: CurrentState) -> tuple[int, str, bool]:
        """Offset at which a partition is read on, the note beside the committed one, and whether it
        may have been learned further, or in another topic of the name."""
        s, member = self.settings, self.client.member
        (at, note), (begin, end) = member.committed_with_note(partition), member.span(partition)
        learned, where = state.index.inputs.get(partition, 0), f"partition {partition} of {s.input}"
        if at is None and not learned:
            return (begin if s.start == "earliest" else end), "", False
        if at is None:
            wrong = f"the group has no offset there, though {learned} were learned"
            if not self._made_again:
                wrong += ": it has expired, or the topic was deleted and made again"
        elif at > end:
            wrong = f"the group is at {at}, and the topic ends at {end}"
        elif at < begin:
            wrong = f"records from {at} to {begin - 1} are gone"
        else:
            return at, note, learned > at or partition in state.index.moved
        if self._made_again:
            wrong = f"the topic was deleted and made again: {wrong}"
        if not s.reset_offsets:
            raise DeniedError(
                f"{where}: {wrong}; --reset-offsets goes on"
                f" {'at its beginning' if s.start == 'earliest' else 'at its end'}"
            )
        log.warning("%s: %s; going on", where, wrong)
        gap = at is not None and at < begin
        at = begin if gap or s.start == "earliest" else end
        return (at, note, False) if gap else (at, "", True)

    # -- records ---------------------------------------------------------------------------------

    @property
    def left(self) -> float:
        """Seconds until the next commit is due, where there is something to commit."""
        return max(0.0, self._due - time.monotonic())

    def step(self, wait_ms: int) -> None:
        """Poll once, correct the records, and commit when due."""
        state = self.follower.look()
        if state is None:
            self._tell_of_no_state()
            time.sleep(wait_ms / 1000)
            return
        self.handing.look(state.index.answered)
        self.metrics.handed_over(self.handing.backlog)
        self._require_answers()
        self._tell_of_learner()
        member = self.client.member
        if self._open:
            wait_ms = min(wait_ms, max(1, int(1000 * self.left)))
        if self._waiting:
            wait_ms = min(wait_ms, WAITING_MS)
        polled = member.poll(wait_ms, self.settings.commit_every - self._handled)
        if (assignment := member.take_rebalance()) is not None:
            try:
                self.take_over(assignment)
            except RetryError as error:  # half done, and the assignment event is consumed
                raise RebuildError(str(error)) from error
            return
        try:
            for (_, partition), records in polled.items():
                if partition in self._at:
                    self._handle(partition, records, state)
            for partition in self._may_go_on(state):
                self._handle(partition, [], state)
        except RegistryAway:
            raise
        except RetryError as error:  # polled records are not delivered again
            raise RebuildError(str(error)) from error
        if self._open and (not self.left or self._handled >= self.settings.commit_every):
            self.commit()
        if self._asked is not None:
            self.health.waits_for = self._asked.trouble
        self._look_for_more()
        self._ask_lag()
        self._progress.show(self.committed, self._lag, self.more_to_show)

    def _may_go_on(self, state: CurrentState) -> list[int]:
        """Partitions with records that were held back. Those that wait for the learner are looked
        at again with a new state, and otherwise now and then: they may hold many records."""
        now = time.monotonic()
        if state.index is not self._waits_under or now - self._waits_since > WAITING_SECONDS:
            self._waits_under, self._waits_since = state.index, now
            return list(self._held)
        return [partition for partition in self._held if partition not in self._waiting]

    def _require_answers(self) -> None:
        """Raise the error that ended the learner of this process where something waits for answers
        and no other learner gives any: another start may, and nobody sees a worker that waits."""
        quiet = time.monotonic() - self.follower.written > ANSWER_SECONDS
        if self.learning_ended is not None and quiet and self.handing.waiting:
            raise self.learning_ended

    def _tell_of_learner(self) -> None:
        """Say in the log when no state has come for a while though something was sent to be
        learned, and when one comes again."""
        written = max(self.follower.written, self._began)
        lost = self._sent_at > written and time.monotonic() - written > LOST_SECONDS
        if lost and not self._lost:
            log.warning(
                "no state for %.0f s: nobody learns; correcting goes on by the newest one",
                time.monotonic() - written,
            )
        elif self._lost and not lost:
            log.info("states are written again: somebody learns")
        self._lost = lost

    def _tell_of_no_state(self) -> None:
        """Say once in the log that nobody has learned yet."""
        now = time.monotonic()
        self._tell_stateless_at = self._tell_stateless_at or now + QUIET_SECONDS
        if now > self._tell_stateless_at:
            self._tell_stateless_at = math.inf
            log.warning(
                "topic %r has no state yet, and nothing is corrected without one: a process that"
                " learns writes it (stream-can learn, or run with learn = true)", self.state_topic
            )  # fmt: skip

    def _look_for_more(self) -> None:
        """Start processing assigned partitions that all topics have by now, and check that every
        input partition is assigned. Done between transactions, as often as the client refreshes
        metadata; soon where no learner answers what was handed over: a topic may be gone."""
        now, seconds = time.monotonic(), self.client.options.seconds("metadata_max_age")
        quiet = bool(self._waiting) and now - self.follower.written > QUIET_SECONDS
        between = self._token is not None and not self._open
        if not between or now - self._looked < (min(QUIET_SECONDS, seconds) if quiet else seconds):
            return
        self._looked = now
        self.client.member.share_out()
        if self._left or quiet:
            self.check()  # other processes ask too, after an error
            if self._left and self._left[0] < self.known:
                self.client.member.ask_again()

    def _ask_lag(self) -> None:
        """Query the lag, for /metrics and the page."""
        due = time.monotonic() - self._lag_asked >= LAG_SECONDS
        if not due or not self._at or self.client.member.rebalanced:
            return
        self._lag_asked = time.monotonic()
        lag = self.client.member.lag(self._at)
        self._lag = sum(lag.values())
        self.metrics.lags({("input", p): n for p, n in lag.items()})

    def _handle(self, partition: int, records: Sequence[Any], state: CurrentState) -> None:
        """Correct records and add their results to the transaction."""
        s, records = self.settings, [*self._held.pop(partition, ()), *records]
        if self._asked is not None:
            ready = self._asked.ready
            n = next((i for i, record in enumerate(records) if not ready(record)), len(records))
            if n < len(records):
                self._held[partition] = records[n:]
            self.client.member.hold(partition, n < len(records))
            records = records[:n]
        if not records:
            return
        if s.backlog == "ordered" and not self._corrects(partition, records, state):
            return
        transaction = self.client.transaction
        corrections = self._correcting.correct_records(records, state)
        topics, now = transaction.topic_limits, transaction.clock.now_ms()
        accepted, refused = dead_letters.divert(
            corrections.outputs, topics[s.output], now, fail=s.errors == "fail"
        )
        if refused:
            corrections.outputs = accepted
            corrections.dead_letters += refused
            corrections.corrected = sum(output.value is not None for output in accepted)
        dead_letters.require_taken(corrections.dead_letters, self.dead_letters, transaction)
        last = (
            records[-1].offset if corrections.stopped is None else corrections.stopped[0].offset - 1
        )
        with dead_letters.made_of([records]):
            self._begin_work(partition)
            transaction.send_all(s.output, partition, corrections.outputs)
            transaction.send_all(self.dead_letters, partition, corrections.dead_letters)
            self._send(partition, corrections.sent or NO_ROWS, last + 1, state)
        self._at[partition] = last + 1
        self._handled += len(corrections.outputs) + len(corrections.dead_letters)
        tally, now_s = self._tallies[partition], time.time()
        tally.answered(*corrections.counts)
        tally.refused += state.refused
        state.refused = 0
        field_names = s.field_names
        letters = [letter(out, now_s, field_names) for out in corrections.dead_letters[-KEPT:]]
        self.metrics.handled(
            Handled(
                len(corrections.outputs),
                corrections.normalised,
                len(corrections.faults),
                letters=letters,
            )
        )
        lonely = corrections.without_id if s.labels is not None else ()
        self.metrics.tell(corrections.faults, lonely, letters)
        if corrections.stopped is not None:
            record, error = corrections.stopped
            self.commit()
            raise UnreadableRecord(f"{offset_of(record)}: {error}") from error

    def _corrects(self, partition: int, records: list[Any], state: CurrentState) -> bool:
        """Whether to correct records that were read; otherwise hand them over, or let them wait."""
        last = records[-1]
        end = max(self.client.member.end(partition) or 0, last.offset + 1)
        n_unread, now = len(records) + end - last.offset - 1, time.time()
        times = [record.timestamp / 1000 if record.timestamp >= 0 else now for record in records]
        unread = Unread(n_unread, times, end)
        way = self.handing.way(partition, unread, state.index.answered, self.follower.written)
        if way in ("ask", "wait"):
            self._held[partition] = records + self._held.get(partition, [])
            self._waiting.add(partition)
            self.client.member.hold(partition, True)
            if way == "ask":
                self._begin_work(partition)
                self._send(partition, NO_ROWS, self._at[partition], state)
            self._due = time.monotonic()
            return False
        if partition in self._waiting:
            self._waiting.discard(partition)
            self.client.member.hold(partition, partition in self._held)
        if way == "hand over":
            self._hand_over(partition, records, state)
        return way == "correct"

    def _begin_work(self, partition: int) -> None:
        """Begin to work on a partition in the transaction."""
        if not self._open:
            self._due = time.monotonic() + self.settings.commit_interval_ms / 1000
        if partition not in self._open:
            self.client.transaction.expect((self.settings.sent_topic, partition))
        self._open.add(partition)

    def _hand_over(self, partition: int, records: list[Any], state: CurrentState) -> None:
        """Hand records over to the learner, which corrects them."""
        stopped, fail = None, self.settings.errors == "fail"
        if fail:
            _, bad = self._correcting.read_records(records, state)
            state.forget()
            if bad:
                first, error = bad[0]
                stopped, records = (records[first], error), records[:first]
        transaction, topic = self.client.transaction, self.settings.sent_topic
        limit = transaction.max_bytes.get(topic, 1 << 20) - HEADER_ROOM
        headers = headers_by(state.number, state.index.mark)
        if records:
            too_large = list[Source]()
            with dead_letters.made_of([records]):
                self._begin_work(partition)
                end_before = 0
                for data, n in pieces_of(records, limit):
                    handed, end_before = n - end_before, n
                    if len(data) > limit + HEADER_ROOM - FEWEST_HEADER_BYTES:
                        too_large.append(records[n - 1])
                        continue
                    own_headers: list[Header] = [
                        (NEXT_HEADER, b"%d" % (records[n - 1].offset + 1)),
                        (DEFERRED_HEADER, b"%d" % handed),
                    ]
                    transaction.send(topic, partition, None, data, headers + own_headers)
                    self._written += len(data)
            first, self._at[partition] = self._at[partition], records[-1].offset + 1
            refused = dead_letters.not_handed_over(too_large, topic, limit, fail=fail)
            if refused:
                dead_letters.require_taken(refused, self.dead_letters, transaction)
                transaction.send_all(self.dead_letters, partition, refused)
                self._tallies[partition].answered(0, 0, len(refused))
                self._send(partition, NO_ROWS, self._at[partition], state)
            self.handing.hand_over(partition, first, self._at[partition])
            self._handled += len(records)
            self._tallies[partition].counts["handed_over"] += len(records) - len(too_large)
            shown = [letter(out, time.time(), self.settings.field_names) for out in refused]
            self.metrics.handled(Handled(letters=shown[-KEPT:]))
            self.metrics.tell(letters=shown)
        if stopped is not None:
            self.commit()
            record, error = stopped
            raise UnreadableRecord(f"{offset_of(record)}: {error}") from error

    def _send(self, partition: int, batch: SentBatch, at: int, state: CurrentState) -> None:
        """Send the batch for the learner in records of accepted size; ``at`` is the next offset."""
        topic, transaction = self.settings.sent_topic, self.client.transaction
        limit = transaction.max_bytes.get(topic, 1 << 20) - HEADER_ROOM
        headers = headers_by(state.number, state.index.mark)
        for data, n in batch.pieces(limit):
            behind = at if n == len(batch) else int(batch.numbers[n])
            transaction.send(
                topic, partition, None, data, [*headers, (NEXT_HEADER, b"%d" % behind)]
            )
            self._written += len(data)

    def commit(self) -> None:
        """Commit the open transaction, if any."""
        if not self._open or self.client.member.rebalanced:
            return  # after a rebalance the next step drops it
        offsets = {(self.settings.input, p): self._at[p] for p in sorted(self._open)}
        notes = {(self.settings.input, p): self.handing.note(p) for p in self._open}
        begin = time.monotonic()
        self.client.require_same(self._ids)
        try:
            self.client.commit(offsets, self._token, notes)
        except RebuildError:
            self.metrics.given_up("unknown")
            raise
        done = {p: self._tallies[p] for p in self._open}
        self.metrics.committed(done, time.monotonic() - begin, self._written)
        self.committed += self._handled
        self._sent_at = time.monotonic()
        self._made_again = False
        self._open, self._handled, self._written = set(), 0, 0

    def close(self) -> None:
        """Close the reader of states."""
        self._progress.end()
        self.follower.close()
