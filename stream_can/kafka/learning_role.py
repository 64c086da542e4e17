"""The loop of ``stream-can learn``: read sent batches and labels, learn, write states.

Exactly one process learns: the owner of partition 0 of the topic of states in the learners' group.
It takes over the transactional id, which fences earlier owners, and only then reads the newest
state. A transaction holds a state, label requests, and dead letters of labels. On any error all
uncommitted work is dropped and learning resumes from the newest state.
"""

from __future__ import annotations

import heapq
import logging
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Literal

import msgspec
import numpy as np

from stream_can.app.counts import Handled
from stream_can.app.labelling.request_message import REASON_HEADER, RequestMessage
from stream_can.app.letters import KEPT, letter
from stream_can.app.metrics import LEARNER, Metrics
from stream_can.app.start import Start
from stream_can.app.tally import Tally, lane_name
from stream_can.errors import SnapshotMismatch
from stream_can.kafka import dead_letters
from stream_can.kafka.client.assigned import Assigned
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, FencedError, RebuildError, RetryError
from stream_can.kafka.client.topic_limits import OVERHEAD_BYTES
from stream_can.kafka.deferred import DeferredBatch, TimesOf, read_deferred, times_of
from stream_can.kafka.headers import (
    DEFERRED_HEADER,
    MARK_HEADER,
    NEXT_HEADER,
    PLAYED_HEADER,
    STATE_HEADER,
    header_of,
    number_in,
)
from stream_can.kafka.identity import require_identity
from stream_can.kafka.learned_time import HandedOver, LearnedTime, is_backlog, progress
from stream_can.kafka.schema_lookups import RegistryAway, SchemaLookups
from stream_can.kafka.sent_record import LabelPlace, SentRecord, cut
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import (
    CORRECTORS,
    INDEX,
    MEMORY,
    Memory,
    Play,
    begin_key,
    corrector_key,
    memory_key,
)
from stream_can.kafka.stored import newest_index, newest_state
from stream_can.kafka.topic_learner import PlayedRecords, TopicLearner
from stream_can.kafka.topics import topics_of
from stream_can.learner import Learner, read_sent
from stream_can.learner.order import BEHIND, steady
from stream_can.learner.sent import NO_ROWS, SentBatch, SentVersion
from stream_can.messages.fields import put
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Header, Output, dead_letter_of, reason_of
from stream_can.messages.records import place as place_of
from stream_can.method.kernel import inside
from stream_can.method.receipts import TAIL

__all__ = ["LearningRole"]

log = logging.getLogger(__name__)

QUICK = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1500}
"""Session time-out: how soon another process takes over. Brokers allow no less by default."""
TURNS = 10
"""How often a start from nothing takes over, where the current learner does so in between."""
MOST_ROWS, LARGE = 500, 20
"""Rows of a state in a backlog; and the most times as many, where states are large or rows wait."""
HISTORY_ROWS = 5000
"""Rows of a state where the learner corrects what was handed over."""
MOST_BYTES_A_SECOND = 1 << 20
"""Maximum bytes of states written per second."""
POLLS = 4
"""Polls per commit interval."""
WAITING_BYTES = 64 << 20
"""Maximum bytes of records read but not played. Each partition has its share: labels that wait for
rows must not block the reading of those rows."""
LAG_SECONDS = 5.0
"""Maximum age in seconds of the lag in /metrics."""
UNOWNED_SECONDS = 60.0
"""After so long without a record from it an input partition that has some counts as nobody's."""
MOST_TOLD = 10
"""Records that are named in the log because they are not played as they are."""
MOST_FORMER = 5
"""Times it was started over whose marks are known: nobody warns of what workers sent under them."""
UNREAD_SECONDS = 2.0
"""How long to wait for the records of a partition with more to read before playing others."""
SOFT_HELD = 20_000
"""Maximum number of held labels; beyond it no labels are read while predictions are due."""


class Queue:
    """Records of a partition that have been read but not played, each with its time."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[float, int, Any]] = deque()
        """Time, NaN where unknown, number of rows, and record."""
        self.bytes = self.deferred = 0
        """Bytes of the records, and how many of them are deferred batches."""

    @property
    def time(self) -> float:
        """When the first record is due, by the rule of :func:`stream_can.learner.order.steady`: a
        clock that is ahead holds back none behind it. ``-inf`` where it has no time."""
        first, *times = [time for time, _, _ in islice(self.waiting, 1 + BEHIND)]
        if math.isnan(first):
            return -math.inf
        behind = sorted(time for time in times if not math.isnan(time))
        return min(first, behind[(len(behind) - 1) // 2]) if behind else first

    def append(self, time: float, rows: int, record: Any) -> None:
        """Append a record."""
        self.bytes += size_of(record)
        self.deferred += is_deferred(record)
        self.waiting.append((time, rows, record))

    def put_back(self, time: float, rows: int, record: Any) -> None:
        """Put a record back in front."""
        self.bytes += size_of(record)
        self.deferred += is_deferred(record)
        self.waiting.appendleft((time, rows, record))

    def take(self) -> tuple[int, Any]:
        """Remove the first record; return its number of rows and the record."""
        _, rows, record = self.waiting.popleft()
        self.bytes -= size_of(record)
        self.deferred -= is_deferred(record)
        return rows, record


def is_deferred(record: Any) -> bool:
    """Whether a record is a deferred batch."""
    return isinstance(record, SentRecord) and record.is_deferred


def latest_of(record: Any, when: float) -> float:
    """Latest time of a record that is due at a time."""
    if not is_deferred(record):
        return when
    return float(np.nanmax(steady(record.batch.times), initial=when))


def size_of(record: Any) -> int:
    """Approximate size of a record in memory."""
    if isinstance(record, SentRecord):
        return record.size
    return len(record.value or b"") + len(record.key or b"") + 300


def _message(settings: Settings, batch: SentBatch, i: int) -> bytes:
    """Encode id and columns of a row as JSON: its message is not available here."""
    message: dict[str, Any] = {}
    for name, texts in batch.segments.items():
        if texts[i] is not None:
            put(message, name.split("."), texts[i])
    put(message, (settings.id or "id").split("."), batch.ids[i].decode(errors="replace"))
    return msgspec.json.encode(message)


def _in_sets(lane: SentVersion) -> int:
    """Total number of classes in the prediction sets of rows."""
    thetas = np.ascontiguousarray(lane.rows[:, -TAIL])
    known = ~np.isnan(thetas)
    sent = np.ascontiguousarray(lane.sent[known], np.float32)
    return int(inside(sent, thetas[known]).sum())


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
        self._asked_registry = lookups
        self._tally: Tally | None = None
        self._lag_asked = 0.0
        self.state_topic, self.dead_letters = settings.state_topic, settings.dead_letters
        group = f"{settings.application_id}-learner"
        self.client = Client(
            settings.bootstrap_servers, group, settings.name,
            input=self.state_topic, options=QUICK | settings.client,
            compression=settings.compression, skip_damaged=settings.skip_damaged,
            transactional_id=group,
        )  # fmt: skip
        self.committed = 0
        """Number of states written by this process."""
        self.learning: TopicLearner | None = None
        self.number = -1
        """Number of the last state."""
        self._pieces = 0
        """Number of records that its memory takes."""
        self._reader: Assigned | None = None
        self._queues: dict[tuple[str, int], Queue] = {}
        self._due = self._next_poll = 0.0
        self._rows = 0
        self._most = MOST_ROWS
        """Rows, or labels, after which the next state is written."""
        self._looked = 0.0
        """When added partitions were last looked for."""
        self._ids: dict[str, str] = {}
        """Ids of the topics of sent batches and labels that are being read."""
        self._begun_at: dict[int, int] = {}
        """Offset of each input partition at which learning starts."""
        self._input: LearnedTime | None = None
        self._handed_over: HandedOver | None = None
        self._came: dict[int, tuple[int, float]] = {}
        """For each input partition the next offset and the latest time of what was read."""
        self.foreign = 0
        """Number of records that are no sent batches of this application."""
        self._fresh = Learner(start.with_settings(start.snapshot))
        """Knows what rows of the application are like."""
        self._output_bytes: int | None = None
        """Maximum size of an output."""
        self.left_out = 0
        """Number of sent batches that cannot be played."""
        self._blocked_until = 0.0
        """Until when not to try again, after there was nothing to play."""
        self._unread_until = 0.0
        """Until when records of partitions with nothing read are waited for."""
        self._answered, self._answers_since = 0, 0.0
        """Number of deferred records answered in the backlog that is open, and since when."""
        self._stands: dict[int, tuple[int, float]] = {}
        """For each input partition the next offset of what workers sent, and since when."""
        self._worse: set[LaneName] = set()
        """Models and versions that are worse than before, as the log has said."""
        self._told = 0
        """Number of records named, or not named, by `_tell`."""
        self.lost = 0
        """Number of offsets of sent batches and labels that retention deleted before they were
        learned."""

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
            has_begun=self.has_state,
        )
        limit = self.client.transaction.max_bytes.get(s.output)
        self._output_bytes = None if limit is None else limit - OVERHEAD_BYTES

    # -- whose it is -----------------------------------------------------------------------------

    def drop(self) -> None:
        """Drop everything that is not in a state."""
        if self.learning is not None:
            self.metrics.learns(None)
        self.learning = None
        reader, self._reader, self._queues = self._reader, None, {}
        self._answered = 0
        if reader is not None:
            reader.close()

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
        begin = time.monotonic()
        self.client.transaction.close()
        self.client.transaction.take_over()
        topics = [self.settings.sent_topic, *self.settings.topics_of_labels]
        ids = self._ids = self.client.topic_ids(topics)
        learning = self._restore(ids)
        start = self.start
        self._tally = Tally(
            start.segments, lambda name: len(learning.models.classes().get(name, start.classes)),
            named=self.settings.has_lanes, sets=self.settings.sets is not None,
            rows=self.settings.rows,
        )  # fmt: skip
        self._tally.held = learning.learner.held
        self._count_requests(learning, self._tally)
        self.metrics.learns(self._tally)
        self.learning = learning
        learning.output_bytes = self._output_bytes
        self._queues, self._begun_at = {}, {}
        readers, topic = self.client.readers, self.settings.input
        self._input = self._handed_over = None
        self._came = {}
        if topic:
            ends = partial(readers.ends, topic)
            following = partial(readers.following, topic, times_of=learning.record_times.in_seconds)
            self._handed_over = HandedOver(ends, following)
            self._input = LearnedTime(ends, following, self.settings.label_wait)
        self._reader = Assigned(self.client.options)
        moved = self._go_on_within_topics(learning, ids)
        self._read_all(learning)
        self.client.require_same(ids)  # what was read may be of either
        self._due = self._next_poll = 0.0
        self._rows = 0
        if self.number < 0 or moved or learning.touched or not learning.begins:
            self._write(learning, None)
        log.info(
            "learning from state %d on, which was read in %.2f s", self.number,
            time.monotonic() - begin,
        )  # fmt: skip

    def _go_on_within_topics(self, learning: TopicLearner, ids: Mapping[str, str]) -> bool:
        """Move positions to what the topics hold; return whether any moved.

        Retention may have deleted what nobody has learned, while no learner ran; or a topic was
        deleted and made again. The workers must not wait for what cannot be learned any more.
        """
        s, readers = self.settings, self.client.readers
        any_moved = False
        for topic, at in self._positions(learning):
            if topic not in ids:  # the reader says that it does not exist
                continue
            made_again = learning.topics.get(topic, ids[topic]) != ids[topic]
            why = "of the topic before, which was made again" if made_again else "not there"
            moved = learning.go_on_within(topic, ids[topic], at, readers.spans(topic))
            for p, was in moved.items():
                any_moved = True
                if p in at and at[p] > was:
                    self.lost += at[p] - was
                    self.metrics.lost(at[p] - was)
                log.warning(
                    "%s-%d: offset %d, at which learning was, is %s; it goes on at %s",
                    topic, p, was, why, at.get(p, "no offset: the partition is gone"),
                )  # fmt: skip
            if moved and at is learning.sent and s.input:
                learning.inputs |= readers.ends(s.input, [p for p in moved if p in at])
                learning.moved |= {p for p in moved if p in at}
        return any_moved

    def _positions(self, learning: TopicLearner) -> list[tuple[str, dict[int, int]]]:
        """The topics that are read, with the next offsets of their partitions."""
        labels = self.settings.topics_of_labels
        return [
            (self.settings.sent_topic, learning.sent),
            *((topic, learning.labels.setdefault(topic, {})) for topic in labels),
        ]

    def _read_all(self, learning: TopicLearner) -> None:
        """Start reading every partition of sent batches and labels at its position."""
        assert self._reader is not None
        s, readers = self.settings, self.client.readers
        places = dict[tuple[str, int], int]()
        for topic, at in self._positions(learning):
            if readers.partitions(topic) > len(at):  # partitions were added, or a topic of labels
                bound = 1 if not at and s.start == "latest" else 0
                for p, span in readers.spans(topic).items():
                    at.setdefault(p, span[bound])
            places |= {(topic, p): offset for p, offset in at.items()}
        if places.keys() != self._queues.keys():
            self._reader.start(places)
            self._queues = {place: Queue() for place in places}
            self._rows = 0
        if s.input:
            bound = 0 if s.start == "earliest" else 1
            for p, span in readers.spans(s.input).items():
                self._begun_at.setdefault(p, span[bound])
        self._looked = time.monotonic()

    # -- the newest state ------------------------------------------------------------------------

    def has_state(self) -> bool:
        """Whether the application has a state."""
        return newest_index(self.client.readers, self.state_topic) is not None

    def _restore(self, ids: Mapping[str, str]) -> TopicLearner:
        readers, s = self.client.readers, self.settings
        stored = newest_state(readers, self.state_topic)
        if stored is None:
            self.number = -1
            return self._new(s.start)
        require_identity(stored.index, s, self.start)
        spans, memory = readers.spans(s.sent_topic), stored.memory
        first = {p: begin for p, (begin, _) in spans.items()}
        batches = defaultdict[int, list[SentRecord]](list)
        id = ids.get(s.sent_topic, "")
        if memory.topics.get(s.sent_topic, id) != id:  # another topic: none of those batches
            first = dict(memory.sent)
        to_read = {
            p: (memory.play_starts.get(p, 0), end)
            for p, end in memory.sent.items() if p in spans and first[p] < end
        }  # fmt: skip
        for record in readers.read_spans(s.sent_topic, to_read):
            if header_of(record.headers, DEFERRED_HEADER) is None:
                ours = header_of(record.headers, MARK_HEADER) == stored.index.mark
                batch = self._batch(record, deferred=False) if ours else None
                if batch is not None:
                    batches[record.partition].append(SentRecord(record.offset, batch))
        played = self._played(memory, first)
        try:
            learning = TopicLearner.restored(s, self.start, stored, batches, first, played)
        except SnapshotMismatch as error:
            raise DeniedError(f"state {stored.number} of {self.state_topic!r}: {error}") from None
        self.number, self._pieces = stored.number, len(stored.index.memory)
        return learning

    def _played(self, memory: Memory, first: Mapping[int, int]) -> dict[tuple[int, int], SentBatch]:
        """The batches that the plays of a memory name as played, as far as they are there."""
        topic, batches = self.settings.sent_topic, dict[tuple[int, int], SentBatch]()
        places = [place for play in memory.plays for place in play.played]
        for p in {p for p, _ in places}:
            offsets = {at for of, at in places if of == p and at >= first.get(p, 0)}
            records = self.client.readers.read_all_at(topic, p, offsets)
            batches |= {(p, at): read_sent(record.value or b"") for at, record in records.items()}
        return batches

    def _new(self, start: Literal["earliest", "latest"]) -> TopicLearner:
        """A learner without knowledge, at the ends of the topics."""
        s, readers = self.settings, self.client.readers
        sent = {p: end for p, (_, end) in readers.spans(s.sent_topic).items()}
        bound = 0 if start == "earliest" else 1
        labels = {
            topic: {p: span[bound] for p, span in readers.spans(topic).items()}
            for topic in s.topics_of_labels
        }
        return TopicLearner.begin(s, self.start, sent, labels)

    def begin_anew(self) -> None:
        """Forget what was learned: write a first state, at the ends of all topics.

        The current learner is fenced and continues from it, as workers do; earlier sent batches are
        skipped.
        """
        self.check()
        for tries_left in reversed(range(TURNS)):
            try:
                self._begin_anew()
                return
            except FencedError:  # by the current learner, which took its id back in between
                self.client.transaction.close()
                if not tries_left:
                    raise

    def _begin_anew(self) -> None:
        self.client.transaction.take_over()  # from now on nobody else answers what was handed over
        newest = newest_index(self.client.readers, self.state_topic)
        if newest is None:
            return
        learning = self._new("latest")
        self._keep_deferred(learning)
        learning.places = {place.name: place.offset for place in newest[1].lanes}  # to be removed
        learning.former = [*newest[1].former, newest[1].mark][-MOST_FORMER:]
        self._pieces = len(newest[1].memory)
        self._write(learning, None)
        snapshot_file = self.settings.classes_from_file
        log.info("started over: state %d %s", self.number,
                 f"is {snapshot_file}" if snapshot_file else "knows nothing")  # fmt: skip

    def _keep_deferred(self, learning: TopicLearner) -> None:
        """Begin where what was handed over is still to be answered, if anything is."""
        readers, topic = self.client.readers, self.settings.sent_topic
        with suppress(DeniedError, RebuildError):  # of a state that cannot be read nothing is known
            stored = newest_state(readers, self.state_topic)
            if stored is None:
                return
            learning.inputs = dict(stored.index.inputs)
            for p, at in stored.memory.sent.items():
                end = learning.sent.get(p, 0)
                if any(
                    header_of(record.headers, DEFERRED_HEADER) is not None
                    for record in readers.read_span(topic, p, at, end)
                ):
                    learning.sent[p] = at
                    if p in stored.memory.within:
                        learning.within[p] = stored.memory.within[p]
            learning.play_starts = dict(learning.sent)

    def begin_with(self, learning: TopicLearner, played: Mapping[int, SentBatch]) -> None:
        """Store knowledge from elsewhere as the first state, with the rows of its plays, by the
        numbers by which it names them."""
        topic = self.settings.sent_topic
        self.client.transaction.take_over()
        plays = deque[Play]()
        for play in learning.plays:
            places = [
                place for _, number in play.played
                for place in self._send_played(learning, 0, played[number])
            ]  # fmt: skip
            plays.append(Play(play.rows, {0: places[-1][1] + 1}, tuple(places)))
        learning.plays = plays
        spans = self.client.readers.spans(topic)
        learning.sent = {p: end for p, (_, end) in spans.items()}
        learning.play_starts = dict(learning.sent)
        if plays:
            learning.sent[0] = plays[-1].ends[0]
            learning.play_starts[0] = plays[0].played[0][1]
        self._write(learning, None)

    def _batch(
        self, record: Any, times_of: TimesOf = times_of, *, deferred: bool
    ) -> SentBatch | DeferredBatch | None:
        """Decode a sent or deferred batch, its times capped at the record's; None where it is
        none. What was played already has no rows."""
        if header_of(record.headers, PLAYED_HEADER) is not None:
            return NO_ROWS
        batch: SentBatch | DeferredBatch
        try:
            if deferred:
                batch = read_deferred(record.value or b"", record.timestamp / 1000, times_of)
                first = batch.records[0]
                if (first.topic, first.partition) != (self.settings.input, record.partition):
                    raise SnapshotMismatch(f"deferred records of {first.topic}-{first.partition}")
            else:
                batch = read_sent(record.value or b"")
                self._fresh.require_sent(batch)
            next_text = header_of(record.headers, NEXT_HEADER)
            if next_text is not None and number_in(record.headers, NEXT_HEADER) is None:
                raise SnapshotMismatch(
                    f"header {NEXT_HEADER}: {next_text[:80]!r}, expected an offset"
                )
        except SnapshotMismatch as error:
            self.left_out += 1
            self.metrics.left_out()
            self._tell(record.partition, record.offset, f"{error}; left out")
            return None
        is_ahead = batch.times > record.timestamp / 1000
        if is_ahead.any():
            batch.times[is_ahead] = record.timestamp / 1000
        return batch

    def _tell(self, partition: int, offset: int, why: str) -> None:
        """Name a record among the sent batches that is not played as it is: of this process the
        first few, since anybody with WRITE may send any number."""
        self._told += 1
        if self._told <= MOST_TOLD:
            log.warning("%s-%d offset %d: %s", self.settings.sent_topic, partition, offset, why)
        if self._told == MOST_TOLD:
            log.warning("others like these are counted alone, see /metrics")

    # -- learning --------------------------------------------------------------------------------

    def _learn(self, learning: TopicLearner, wait_ms: int) -> None:
        """Read on; play the records and write a state when due."""
        now, interval = time.monotonic(), self.settings.commit_interval_ms / 1000
        if now < self._blocked_until:
            time.sleep(min(self._blocked_until - now, wait_ms / 1000))
            return
        if now < self._next_poll and self._rows < self._most:
            time.sleep(min(self._next_poll - now, wait_ms / 1000))
            return
        self._next_poll = time.monotonic() + interval / POLLS
        if now - self._looked > self.client.options.seconds("metadata_max_age"):
            self._read_all(learning)
        self._poll_records(learning, 0)
        self._ask_lag()
        if time.monotonic() < self._due and self._rows < self._most:
            return
        if self._behind():  # no longer than one poll
            self._poll_records(learning, 50)
        try:
            sent, labels, until = self._records_to_play(learning)
            if not sent and not labels:
                self._due = time.monotonic() + interval
                self._blocked_until = time.monotonic() + interval / POLLS
                return
            played = learning.play(sent, labels, until, self.number)
            self._refuse_answers(played)
            self._count(learning, played)
            self._write(learning, played)
            self._tell_of_backlog(played)
            self._tell_of_alarms(learning)
        except RegistryAway:
            raise
        except RetryError as error:  # records have left their queues
            raise RebuildError(str(error)) from error

    def _tell_of_backlog(self, played: PlayedRecords) -> None:
        """Say in the log when deferred records begin to be answered, and when none is left."""
        answers = played.answers.values()
        n = sum(len(answer.outputs) + len(answer.dead_letters) for answer in answers)
        if n and not self._answered:
            self._answers_since = time.monotonic()
            log.info("workers are behind: correcting what they hand over")
        self._answered += n
        if self._answered and not self._corrects:
            took = time.monotonic() - self._answers_since
            log.info("corrected %d records that workers handed over, in %.1f s", self._answered,
                     took)  # fmt: skip
            self._answered = 0

    def _tell_of_alarms(self, learning: TopicLearner) -> None:
        """Say in the log when something becomes worse than before, and when it is not any more."""
        worse = {lane_name(name): episode for name, episode in learning.learner.episodes.items()}
        for lane in worse.keys() - self._worse:
            log.warning("%s", worse[lane].text(str(lane)))
        for lane in self._worse - worse.keys():
            log.info("the alarm is over: it is as before again, or has been so for long that it is"
                     " the new normal%s", f": {lane}" if str(lane) else "")  # fmt: skip
        self._worse = {*worse}

    @property
    def _corrects(self) -> bool:
        """Whether there are deferred batches to play."""
        return any(queue.deferred for queue in self._queues.values())

    @staticmethod
    def _in_backlog(learning: TopicLearner) -> bool:
        return is_backlog(max(progress(learning.times).values(), default=0.0))

    def _count(self, learning: TopicLearner, played: PlayedRecords) -> None:
        """Count what was learned."""
        tally, corrected, batch = self._tally, played.corrected, played.sent
        assert tally is not None
        names = None
        if self.settings.has_lanes:
            names = [batch.versions[k].name for k in batch.of.tolist()]
        in_sets = 0 if self.settings.sets is None else sum(map(_in_sets, batch.versions))
        tally.observed(len(batch), names, batch.segments or None, in_sets)
        tally.labelled(corrected.outcomes, corrected.taught, learning.learner.held)
        tally.not_learned(*played.not_learned)
        tally.counts["early"] = learning.learner.early_labels
        tally.refuse(len(played.bad), labels=True)
        answers, refused = played.answers.values(), list[Output]()
        for answer in answers:
            tally.answered(*answer.counts)
            refused += answer.dead_letters
            lonely = answer.without_id if self.settings.labels is not None else ()
            self.metrics.tell(answer.faults, lonely)
        delays, answered = list[int](), 0
        for label in corrected.taught:
            answered += label.prediction.asked is not None
            if label.time is not None and not math.isnan(label.prediction.time):
                delays.append(round(1000 * (label.time - label.prediction.time)))
        self._count_requests(learning, tally)
        now, field_names = time.time(), self.settings.field_names
        letters = [
            letter(dead_letter_of(record, error), now, field_names)
            for record, error in played.bad[-KEPT:]
        ] + [letter(output, now, field_names) for output in refused[-KEPT:]]
        self.metrics.tell(letters=letters)
        reasons = [reason for reason in corrected.asked if reason is not None]
        self.metrics.handled(
            Handled(
                sum(len(answer.outputs) for answer in answers),
                sum(answer.normalised for answer in answers),
                sum(len(answer.faults) for answer in answers),
                delays=delays,
                requested=reasons,
                answered=answered,
                letters=letters,
            ),
            LEARNER,
        )

    def _count_requests(self, learning: TopicLearner, tally: Tally) -> None:
        if self.settings.ask is not None:
            n, oldest = learning.learner.open_requests
            tally.requests = n, None if oldest is None else int(1000 * oldest)

    def _ask_lag(self) -> None:
        """Query the lag, for /metrics and the page."""
        if time.monotonic() - self._lag_asked < LAG_SECONDS or self._reader is None:
            return
        self._lag_asked = time.monotonic()
        self._reader.require_known()
        lag = Counter[tuple[str, int]]()
        for (topic, p), n in self._reader.lag().items():
            of = "sent" if topic == self.settings.sent_topic else "labels"
            lag[of, p] += n + len(self._queues[topic, p].waiting)
        if self.learning is not None:
            lag.update({("unowned", p): n for p, n in self._unowned(self.learning).items()})
        self.metrics.lags(lag, LEARNER)

    def _unowned(self, learning: TopicLearner) -> dict[int, int]:
        """Records of the input partitions of which nobody has corrected any for a minute."""
        s, now = self.settings, time.monotonic()
        if not s.input:
            return {}
        at = self._begun_at | learning.inputs | {p: offset for p, (offset, _) in self._came.items()}
        for p, offset in at.items():
            if self._stands.get(p, (None,))[0] != offset:
                self._stands[p] = offset, now
        idle = [p for p, (_, since) in self._stands.items() if now - since > UNOWNED_SECONDS]
        ends = self.client.readers.ends(s.input, idle) if idle else {}
        return {p: end - at[p] for p, end in ends.items() if p in at and end > at[p]}

    def _poll_records(self, learning: TopicLearner, wait_ms: int) -> None:
        """Add the records of one poll to the queues."""
        assert self._reader is not None
        share = WAITING_BYTES / len(self._queues)
        for place, queue in self._queues.items():
            self._reader.hold(place, queue.bytes > share)
        foreign = list[Any]()
        for (topic, p), records in self._reader.poll(wait_ms).items():
            queue = self._queues[topic, p]
            if topic != self.settings.sent_topic:
                # One that is ahead holds back none that comes behind it later.
                times = np.minimum(learning.record_times.in_seconds(records), time.time()).tolist()
                for when, record in zip(times, records, strict=True):
                    queue.append(when, 0, record)
                continue
            for record in records:
                deferred = header_of(record.headers, DEFERRED_HEADER) is not None
                if not deferred and header_of(record.headers, MARK_HEADER) != learning.mark:
                    foreign.append(record)
                    continue
                batch = self._batch(record, learning.record_times.in_seconds, deferred=deferred)
                if batch is None:
                    self.foreign += 1
                    continue
                times = batch.times[~np.isnan(batch.times)]
                when = float(np.median(times)) if len(times) else math.nan
                at = number_in(record.headers, NEXT_HEADER)
                if at is not None:
                    latest = float(np.nanmax(steady(times), initial=-math.inf))
                    self._came[p] = at, max(self._came.get(p, (0, latest))[1], latest)
                sent = SentRecord(record.offset, batch, size_of(record), at)
                skipped = learning.within.get(p, 0) if record.offset == learning.sent[p] else 0
                if sent.is_deferred and 0 < skipped < len(batch):
                    sent = cut(sent, skipped)[1]
                if sent.is_deferred:
                    when = sent.batch.times[0]
                elif not len(batch):
                    when = self._latest(p)
                self._rows += len(sent.batch)
                queue.append(when, len(sent.batch), sent)
        state_numbers = (number_in(record.headers, STATE_HEADER) for record in foreign)
        if any(number is not None and number > self.number for number in state_numbers):
            newest = newest_index(self.client.readers, self.state_topic)
            if newest is not None and newest[1].mark != learning.mark:
                raise RebuildError("the application was started over by another process")
        for record in foreign:
            if header_of(record.headers, MARK_HEADER) not in learning.former:
                self.foreign += 1
                why = f"header {MARK_HEADER} is not that of this application; left out"
                self._tell(record.partition, record.offset, why)

    def _records_to_play(
        self, learning: TopicLearner
    ) -> tuple[dict[int, list[SentRecord]], dict[LabelPlace, list[Any]], float]:
        """Take the records to play: the oldest first, as long as nothing older can still arrive.
        Also return how far all input is then learned. Labels are taken up to that time and up to
        the rows left over; in a backlog they would otherwise all be held."""
        topic, wait = self.settings.sent_topic, self.settings.label_wait
        if self._corrects:
            return self._take_in_order(learning)
        backlog = self._in_backlog(learning)
        queues = {place: queue for place, queue in self._queues.items() if queue.waiting}
        if not queues:
            return {}, {}, math.inf
        records, last = self._oldest({at for at in queues if at[0] == topic}, math.inf)
        sent = {p: self._within_input(p, batches) for (_, p), batches in records.items()}
        until = math.inf
        if self.settings.labels is not None and self._input is not None:
            inputs, times = learning.after(sent)
            until = self._input.until(
                self._begun_at | inputs, progress(times), near=0 if backlog else wait / 2
            )
        if learning.learner.held > SOFT_HELD and until < math.inf:
            return sent, {}, until
        waiting_sent = [queue for at, queue in queues.items() if at[0] == topic and queue.waiting]
        # Uncorrected rows of a backlog come soon, and a label belongs to all rows of its id.
        last = min(
            [until + (0 if backlog else wait), last, *(queue.time for queue in waiting_sent)]
        )
        labels, _ = self._oldest({at for at in queues if at[0] != topic}, last)
        return sent, labels, until

    def _take_in_order(
        self, learning: TopicLearner
    ) -> tuple[dict[int, list[SentRecord]], dict[LabelPlace, list[Any]], float]:
        """:meth:`_records_to_play` where there are deferred batches: rows and labels by time, as
        long as nothing older can arrive. Partitions that are handed over now are waited for, except
        by what workers corrected."""
        assert self._reader is not None
        topic = self.settings.sent_topic
        empty = [place for place, queue in self._queues.items() if not queue.waiting]
        if self._reader.behind(empty) and time.monotonic() < self._unread_until:
            return {}, {}, math.inf
        handed_until = math.inf
        if self._handed_over is not None:
            came = {p: at for p, (at, _) in self._came.items()}
            latest = progress(learning.times) | {p: t for p, (_, t) in self._came.items()}
            handed_until = self._handed_over.until(self._begun_at | learning.inputs | came, latest)
        due: dict[bool, dict[LabelPlace, list[Any]]] = {True: {}, False: {}}
        heads = [(queue.time, place) for place, queue in self._queues.items() if queue.waiting]
        heapq.heapify(heads)
        rows, has_taken, last = 0, False, handed_until
        while heads and rows < HISTORY_ROWS:
            when, place = heapq.heappop(heads)
            queue, is_sent = self._queues[place], place[0] == topic
            record = queue.waiting[0][2]
            if when > handed_until and (not is_sent or record.is_deferred):
                continue
            if not self._ready(place[0], record):
                last = min(last, when)
                continue
            n, record = queue.take()
            has_taken = True
            rows += max(n, 1) if is_sent else 0
            self._rows -= n
            due[is_sent].setdefault(place, []).append(record)
            if queue.waiting:
                heapq.heappush(heads, (queue.time, place))
            elif self._reader.behind([place]):
                last = min(last, latest_of(record, when))
                break  # the rest may be older than records of this one
        last = min([last, *(when for when, _ in heads)])
        if has_taken:
            self._unread_until = time.monotonic() + UNREAD_SECONDS
            self._give_back(learning, due, last)
        sent = {p: self._within_input(p, batches) for (_, p), batches in due[True].items()}
        until = math.inf
        if self.settings.labels is not None and self._input is not None:
            inputs, times = learning.after(sent)
            until = self._input.until(self._begun_at | inputs, progress(times))
        return sent, due[False], until

    def _give_back(
        self, learning: TopicLearner, due: dict[bool, dict[LabelPlace, list[Any]]], last: float
    ) -> None:
        """Put back what is later than a time, of deferred batches and labels that were taken."""
        if last == math.inf:
            return
        sent, labels = ({at: [*records] for at, records in due[of].items()} for of in (True, False))
        for place, records in sent.items():
            queue = self._queues[place]
            due_rows = self._due_of(records, queue, last)
            due_records, at = list[Any](), 0
            for record in records:
                if at + len(record.batch) > due_rows and record.is_deferred:
                    break
                due_records.append(record)
                at += len(record.batch)
            rest = records[len(due_records) :]
            if rest and due_rows > at:
                first, second = cut(rest[0], due_rows - at)
                due_records.append(first)
                rest[0] = second
            sent[place], due[True][place] = rest, due_records
        times = {
            at: learning.record_times.in_seconds(records).tolist() for at, records in labels.items()
        }
        for place, records in labels.items():
            n = len(records)
            while n and times[place][n - 1] > last:
                n -= 1
            labels[place], due[False][place] = records[n:], records[:n]
        if not any(records for of in due.values() for records in of.values()):
            for place, records in sent.items():  # clocks that are wrong stop nothing
                due[True][place] = records
            for place, records in labels.items():
                due[False][place] = records
        else:
            for place, records in sent.items():
                for record in reversed(records):
                    self._rows += len(record.batch)
                    when = record.batch.times[0] if len(record.batch) else self._latest(place[1])
                    self._queues[place].put_back(when, len(record.batch), record)
            for place, records in labels.items():
                for record, when in zip(records[::-1], times[place][::-1], strict=False):
                    self._queues[place].put_back(when, 0, record)
        for of in due.values():
            for place in [place for place, records in of.items() if not records]:
                del of[place]

    def _latest(self, p: int) -> float:
        """When a batch without rows is due: behind what its partition has, of which it holds back
        nothing. NaN, at once, where that is unknown."""
        return self._came.get(p, (0, math.nan))[1]

    @staticmethod
    def _due_of(records: Sequence[SentRecord], queue: Queue, last: float) -> int:
        """How many rows of a partition come up to a time, before what waits in its queue."""
        times = [record.batch.times for record in records]
        n = sum(map(len, times))
        if queue.waiting:
            times.append(queue.waiting[0][2].batch.times[:BEHIND])
        steady_times = steady(np.concatenate(times))[:n]
        keys = np.maximum.accumulate(np.where(np.isnan(steady_times), -np.inf, steady_times))
        return int(np.searchsorted(keys, last, side="right"))

    def _within_input(self, p: int, batches: list[SentRecord]) -> list[SentRecord]:
        """Cut what batches of a partition say of the input to what the input holds."""
        nexts = [record.next for record in batches if record.next is not None]
        if self._input is None or not nexts:
            return batches
        end = self._input.within({p: max(nexts)})[p]
        for record in batches:
            if record.next is not None and record.next > end:
                claim = f"header {NEXT_HEADER}: {record.next}, but {self.settings.input}-{p}"
                self._tell(p, record.offset, f"{claim} ends at {end}, which counts instead")
        return [
            record if record.next is None else record._replace(next=min(record.next, end))
            for record in batches
        ]

    def _oldest(
        self, places: set[tuple[str, int]], last: float
    ) -> tuple[dict[LabelPlace, list[Any]], float]:
        """Take records of some partitions up to a time; also return the time up to which
        none is missing."""
        due, rows, ready = dict[LabelPlace, list[Any]](), 0, self._ready
        heads = [(self._queues[place].time, place) for place in places]
        heapq.heapify(heads)
        while heads and rows < self._most:
            when, place = heapq.heappop(heads)
            queue = self._queues[place]
            waiting = queue.waiting
            if when > last:
                break
            if not ready(place[0], waiting[0][2]):
                continue
            n, record = queue.take()
            rows += max(n, 1)
            self._rows -= n
            due.setdefault(place, []).append(record)
            if waiting:
                heapq.heappush(heads, (queue.time, place))
            elif self._reader is not None and self._reader.behind([place]):
                return due, when  # the rest may be older than records of others
        return due, math.inf

    def _ready(self, topic: str, record: Any) -> bool:
        """Whether a label, or the records of a deferred batch, can be read now."""
        registry = self._asked_registry
        if registry is None:
            return True
        if topic != self.settings.sent_topic:
            return registry.ready(record)
        return not is_deferred(record) or all(map(registry.ready, record.batch.records))

    def _behind(self) -> bool:
        """Whether a partition with an empty queue has more to read."""
        assert self._reader is not None
        return bool(
            self._reader.behind(p for p, queue in self._queues.items() if not queue.waiting)
        )

    def _write(self, learning: TopicLearner, played: PlayedRecords | None) -> None:
        """Write a state and the other results of playing, in one transaction."""
        transaction, begin = self.client.transaction, time.monotonic()
        size, where, begins = 0, {}, {}
        answered = self._send_answers(learning, played) if played is not None else 0
        lanes, starts = learning.changed()
        for name, data in lanes:
            size += len(data)
            where[name] = transaction.send(
                self.state_topic, CORRECTORS, corrector_key(name), data
            )  # fmt: skip
        for model, data in starts:
            begins[model] = transaction.send(
                self.state_topic, CORRECTORS, begin_key(model), data
            )  # fmt: skip
        for name in learning.gone():
            transaction.send(self.state_topic, CORRECTORS, corrector_key(name), None)
        memory = learning.memory()
        size += len(memory)
        most = transaction.max_bytes[self.state_topic] - OVERHEAD_BYTES
        pieces = [memory[at : at + most] for at in range(0, len(memory), most)]
        where_memory = []
        for k, piece in enumerate(pieces):
            if k:  # Trap: the producer would put several into one batch, larger than a topic takes
                transaction.deliver()
            where_memory.append(transaction.send(self.state_topic, MEMORY, memory_key(k), piece))
        for k in range(len(pieces), self._pieces):
            transaction.send(self.state_topic, MEMORY, memory_key(k), None)
        if played is not None:
            self._send_letters(played)
            self._send_requests(learning, played)
        transaction.deliver()
        index = learning.index(
            {name: future.value.offset for name, future in where.items()},
            {model: future.value.offset for model, future in begins.items()},
            [future.value.offset for future in where_memory],
        )
        written = transaction.send(self.state_topic, CORRECTORS, INDEX, index)
        transaction.deliver()
        self.client.require_same(self._ids)
        transaction.commit({}, None)
        if played is not None and self._tally is not None:
            self.metrics.committed(
                {LEARNER: self._tally}, time.monotonic() - begin, size + answered
            )
        self.number, self._pieces = written.value.offset, len(pieces)
        self.committed += 1
        interval, pause = self.settings.commit_interval_ms / 1000, size / MOST_BYTES_A_SECOND
        self._due = begin + max(interval, pause)
        large = max(1.0, pause / interval)
        if self._rows > self._most:  # it falls behind
            large = max(large, 2 * self._most / MOST_ROWS)
        self._most = int(MOST_ROWS * min(large, LARGE))

    def _refuse_answers(self, played: PlayedRecords) -> None:
        """Turn outputs of deferred records that their topic would refuse into dead letters."""
        if not played.answers:
            return
        s, transaction = self.settings, self.client.transaction
        accepts, now, fail = (
            transaction.topic_limits,
            transaction.clock.now_ms(),
            s.errors == "fail",
        )
        for answer in played.answers.values():
            if fail and answer.dead_letters:
                first = answer.dead_letters[0]
                where = place_of(first.source)  # type: ignore[arg-type]
                raise DeniedError(
                    f'{where}: {reason_of(first)}; errors = "fail" ends learning there'
                )
            answer.outputs, refused = dead_letters.divert(
                answer.outputs, accepts[s.output], now, fail=fail
            )
            if refused:
                answer.dead_letters += refused
                answer.corrected = sum(output.value is not None for output in answer.outputs)
            dead_letters.require_taken(answer.dead_letters, self.dead_letters, transaction)

    def _send_answers(self, learning: TopicLearner, played: PlayedRecords) -> int:
        """Send outputs and dead letters of deferred records, and tell of all rows that were played
        with them, for a restart; return the bytes of these."""
        s, transaction, size = self.settings, self.client.transaction, 0
        answers = played.answers.items()
        outputs_of_each = ([*answer.outputs, *answer.dead_letters] for _, answer in answers)
        with dead_letters.made_of(
            [[output.source for output in outputs if output.source] for outputs in outputs_of_each]
        ):
            for p, answer in answers:
                transaction.send_all(s.output, p, answer.outputs)
                transaction.send_all(self.dead_letters, p, answer.dead_letters)
            if answers:
                transaction.deliver()
        if played.played:
            p = self.committed % self._partitions(s.sent_topic)
            learning.told(self._send_played(learning, p, played.sent))
            size += sum(len(lane.rows) * lane.rows.shape[1] * 4 for lane in played.sent.versions)
        return size

    def _send_played(
        self, learning: TopicLearner, p: int, batch: SentBatch
    ) -> list[tuple[int, int]]:
        """Send rows that were played with the records that they answer; return where they lie."""
        transaction, topic = self.client.transaction, self.settings.sent_topic
        headers: list[Header] = [
            (MARK_HEADER, learning.mark.encode()), (PLAYED_HEADER, b"%d" % self.number)
        ]  # fmt: skip
        pieces = batch.pieces(transaction.max_bytes[topic] - OVERHEAD_BYTES)
        futures = [transaction.send(topic, p, None, data, headers) for data, _ in pieces]
        transaction.deliver()
        return [(p, future.value.offset) for future in futures]

    def _send_letters(self, played: PlayedRecords) -> None:
        """Send dead letters of labels."""
        if self.settings.errors == "fail" and played.bad:
            record, error = played.bad[0]
            raise DeniedError(
                f"label at offset {record.offset} of {record.topic}-{record.partition}: {error};"
                ' errors = "fail" ends learning there'
            )
        of = self._partitions(self.dead_letters) if played.bad else 1
        transaction = self.client.transaction
        letters = [dead_letter_of(record, error) for record, error in played.bad]
        accepts = transaction.topic_limits[self.dead_letters]
        dead_letters.date(letters, accepts, transaction.clock.now_ms())
        for dead_letter, (record, _) in zip(letters, played.bad, strict=True):
            transaction.send_all(self.dead_letters, record.partition % of, [dead_letter])

    def _send_requests(self, learning: TopicLearner, played: PlayedRecords) -> None:
        """Send label requests, each to the partition of its prediction."""
        s, batch, places = self.settings, played.sent, played.sent.places()
        transaction = self.client.transaction
        now = transaction.clock.now_ms()
        requests: dict[int, list[Output]] = {}
        requested = [
            (i, reason) for i, reason in enumerate(played.corrected.asked) if reason is not None
        ]
        of = self._partitions(s.requests_topic) if requested else 1
        for i, reason in requested:
            lane, (partition, offset) = batch.versions[int(batch.of[i])], played.places[i]
            raw, sent, classes = learning.learner.listed(lane, int(places[i]))
            time_ms = -1 if math.isnan(batch.times[i]) else int(1000 * batch.times[i])
            id = batch.ids[i]
            says = RequestMessage(
                id.decode(errors="replace"), reason, time_ms, raw, sent,
                classes=None if [*self.start.classes] == classes else classes,
            )  # fmt: skip
            if offset is None:
                says.message = msgspec.Raw(_message(s, batch, i))
            else:
                says.topic, says.partition, says.offset = s.input, partition, offset
            headers: list[Header] = [(REASON_HEADER, reason.encode())]
            requests.setdefault(partition % of, []).append(
                Output(id, msgspec.json.encode(says), headers, now)
            )
        for partition, outputs in requests.items():
            accepted = dead_letters.accepted(
                outputs, s.requests_topic, transaction.topic_limits, now
            )
            transaction.send_all(s.requests_topic, partition, accepted)

    def _partitions(self, topic: str) -> int:
        """Number of partitions of a topic."""
        of = self.client.readers.partitions(topic)
        if not of:  # deleted; another error reports it
            raise RetryError(f"topic {topic!r} is not known")
        return of

    def commit(self) -> None:
        """Do nothing: everything played is in a state already."""

    def close(self) -> None:
        """Close the readers."""
        self.drop()
