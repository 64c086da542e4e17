"""The loop of ``stream-can learn``: read what was sent and the labels, learn, write states.

Of all that may learn one does: who has partition 0 of the topic of states in their group. It takes
the transactional id over, so that nobody who had it before writes any more, and only then reads the
newest state. A transaction holds a state, label requests, and dead letters of labels. Whatever goes
wrong, all is given up, and it begins again with the newest state.
"""

from __future__ import annotations

import heapq
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from stream_can.app.known import Handled
from stream_can.app.letters import KEPT, letter
from stream_can.app.metrics import LEARNER, Metrics
from stream_can.app.tally import Tally
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.kafka import refusals
from stream_can.kafka.client.assigned import Assigned
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RebuildError
from stream_can.kafka.memory import Learning, Played, SentRecord, Stored
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import TaskStart
from stream_can.kafka.state import (
    CORRECTORS,
    INDEX,
    MARK_HEADER,
    MEMORY,
    begin_key,
    corrector_key,
    header_of,
    read_index,
    read_memory,
)
from stream_can.kafka.topics import topics_of
from stream_can.learner import read_sent
from stream_can.learner.sent import SentBatch, SentLane
from stream_can.messages.records import Output, error_headers, headers_of
from stream_can.method.kernel import inside
from stream_can.method.receipts import TAIL

__all__ = ["Learns"]

log = logging.getLogger(__name__)

QUICK = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1500}
"""So soon another one learns where this one has died; brokers allow no less by themselves."""
MOST_ROWS = 500
"""Of a state, in a backlog."""
MOST_BYTES_A_SECOND = 1 << 20
"""Of states."""
POLLS = 4
"""In a commit interval."""
WAITING_BYTES = 64 << 20
"""Of records that were read and not played."""
LAG_SECONDS = 5.0
"""How old the lag of /metrics may be."""
ASK_SECONDS = 1.0
"""Between two questions whether there is input left."""
SOFT_HELD = 20_000
"""Labels on hold; with more none are read while there are predictions to come."""


class Queue:
    """Records of a partition that were read and not played, with the time of each."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[float, int, Any]] = deque()
        """Time, rows, and the record."""
        self.latest = float("-inf")

    def add(self, time: float, rows: int, record: Any) -> None:
        """One that follows the others."""
        self.latest = max(self.latest, time)
        self.waiting.append((self.latest, rows, record))


def size_of(record: Any) -> int:
    """What a record takes in memory, about."""
    return len(record.value or b"") + len(record.key or b"") + 300


def _letter(record: Any, error: StreamCANError) -> Output:
    """The dead letter of a label."""
    headers = headers_of(record) + error_headers(record, error)
    return Output(record.key, record.value, headers, record.timestamp, record)


def _in_sets(lane: SentLane) -> int:
    """How many classes the prediction sets of rows have together."""
    thetas = np.ascontiguousarray(lane.rows[:, -TAIL])
    known = ~np.isnan(thetas)
    sent = np.ascontiguousarray(lane.sent[known], np.float32)
    return int(inside(sent, thetas[known]).sum())


class Learns:
    """Learns while partition 0 of the topic of states is ours; see
    :class:`stream_can.kafka.loop.Role`.

    Parameters
    ----------
    settings, start
        The topics and rules, and with what models begin.
    metrics
        Told of what was done.
    ready
        Whether a label can be read now; one that cannot holds back what follows it in its
        partition.
    """

    def __init__(
        self,
        settings: Settings,
        start: TaskStart,
        metrics: Metrics,
        ready: Callable[[Any], bool] | None = None,
    ) -> None:
        self.settings, self.start, self.metrics = settings, start, metrics
        self._ready = ready
        self._tally: Tally | None = None
        self._lag_asked = 0.0
        self.state_topic, self.dead_letters = settings.own_topics
        group = f"{settings.application_id}-learner"
        self.client = Client(
            settings.bootstrap_servers, group, settings.name,
            input=self.state_topic, options=QUICK | settings.client,
            compression=settings.compression, skip_damaged=settings.skip_damaged,
            transactional_id=group,
        )  # fmt: skip
        self.committed = 0
        """States that this process has written."""
        self.learning: Learning | None = None
        self.number = -1
        """Of the last state."""
        self._reader: Assigned | None = None
        self._queues: dict[tuple[str, int], Queue] = {}
        self._due = self._next_poll = 0.0
        self._rows = self._bytes = 0
        self._asked, self._left = -math.inf, True
        """When it was asked whether there is input left; and whether there was."""
        self.foreign = 0
        """Records of sent batches that are none of this application."""

    def check(self) -> None:
        """Check topics, rights and sizes; make missing topics, where we may."""
        s = self.settings
        others = {} if s.labels is None else {s.labels: {"READ"}}
        own = topics_of(s, corrects=False, learns=True, state_bytes=self.start.state_bytes)
        self.client.check_topics(
            others | {s.input: {"DESCRIBE"}}, own, input=s.input, create=s.create_topics
        )

    # -- whose it is -----------------------------------------------------------------------------

    def drop(self) -> None:
        """Give up all that is not in a state."""
        if self.learning is not None:
            self.metrics.learns(None)
        self.learning = None
        reader, self._reader, self._queues = self._reader, None, {}
        if reader is not None:
            reader.close()

    def step(self, wait_ms: int) -> None:
        """Poll once; play and write a state when it is time."""
        member = self.client.member
        member.poll(0 if self.learning is not None else wait_ms)
        assignment = member.take_rebalance()
        if assignment is not None and assignment.token is not None:
            for p in assignment.partitions:
                member.start_at(self.state_topic, p, 0)
                member.hold(self.state_topic, p, True)
            ours = CORRECTORS in assignment.partitions
            if ours and self.learning is None:
                self._take_over()
            elif not ours and self.learning is not None:
                log.info("another one learns now")
                self.client.transaction.abort()
                self.drop()
        if self.learning is not None:
            self._learn(self.learning, wait_ms)

    def _take_over(self) -> None:
        """Learn from the newest state on, which nobody else can follow any more."""
        begin = time.monotonic()
        self.client.transaction.close()
        self.client.transaction.open()
        learning = self._restore()
        start = self.start
        self._tally = Tally(
            start.segments, lambda name: len(learning.models.classes().get(name, start.classes)),
            named=self.settings.has_lanes, sets=self.settings.sets is not None,
        )  # fmt: skip
        self._tally.held = learning.learner.held
        self._count_requests(learning, self._tally)
        self.metrics.learns(self._tally)
        self.learning = learning
        reader = Assigned(self.client.options)
        places = {(self.settings.sent_topic, p): at for p, at in learning.sent.items()}
        places |= {(self.settings.labels or "", p): at for p, at in learning.labels.items()}
        reader.start(places)
        self._reader = reader
        self._queues = {place: Queue() for place in places}
        self._due = self._next_poll = 0.0
        self._rows = self._bytes = 0
        if self.number < 0:
            self._write(learning, None)
        log.info(
            "learning from state %d on, which was read in %.2f s", self.number,
            time.monotonic() - begin,
        )  # fmt: skip

    # -- the newest state ------------------------------------------------------------------------

    def _restore(self) -> Learning:
        readers, s = self.client.readers, self.settings
        record = readers.last(self.state_topic, CORRECTORS, INDEX)
        if record is None:
            self.number = -1
            sent = {p: end for p, (_, end) in readers.spans(s.sent_topic).items()}
            labels = {}
            if s.labels is not None:
                which = 0 if s.start == "earliest" else 1
                labels = {p: span[which] for p, span in readers.spans(s.labels).items()}
            return Learning.begin(s, self.start, sent, labels)
        where = f"offset {record.offset} of {self.state_topic}-{CORRECTORS}"
        try:
            stored = self._stored(record)
            spans = readers.spans(s.sent_topic)
            memory = stored.memory
            first = {p: begin for p, (begin, _) in spans.items()}
            batches = {}
            for p, end in memory.sent.items():
                found = readers.read(s.sent_topic, p, memory.begun.get(p, 0), end)
                mine = ((one.offset, self._batch(one, stored.index.mark)) for one in found)
                batches[p] = [SentRecord(at, batch) for at, batch in mine if batch is not None]
            learning = Learning.restored(s, self.start, stored, batches, first)
        except SnapshotMismatch as error:
            raise DeniedError(f"{where}: {error}") from None
        for p in spans.keys() - learning.sent.keys():  # added since
            learning.sent[p] = spans[p][0]
        if s.labels is not None:
            for p, span in readers.spans(s.labels).items():
                learning.labels.setdefault(p, span[0])
        self.number = record.offset
        return learning

    def _stored(self, record: Any) -> Stored:
        readers, index = self.client.readers, read_index(record.value or b"")
        wanted = {one.offset for one in index.lanes} | {one.offset for one in index.begins}
        found = readers.read_all_at(self.state_topic, CORRECTORS, wanted)
        memory = readers.read_at(self.state_topic, MEMORY, index.memory)
        if memory is None or found.keys() != wanted:
            raise RebuildError("parts of the newest state are gone: there is a newer one")
        return Stored(
            record.offset,
            index,
            read_memory(memory.value),
            {one.name: found[one.offset].value for one in index.lanes},
            {one.model: found[one.offset].value for one in index.begins},
        )

    def _batch(self, record: Any, mark: str) -> SentBatch | None:
        """A sent batch, no row of which is later than it was written; None where the record is
        none of ours."""
        if header_of(record.headers, MARK_HEADER) != mark:
            return None
        try:
            batch = read_sent(record.value or b"")
        except SnapshotMismatch as error:
            log.warning(
                "%s-%d offset %d: %s; left out", record.topic, record.partition, record.offset,
                error,
            )  # fmt: skip
            return None
        late = batch.times > record.timestamp / 1000
        if late.any():
            batch.times[late] = record.timestamp / 1000
        return batch

    # -- learning --------------------------------------------------------------------------------

    def _learn(self, learning: Learning, wait_ms: int) -> None:
        """Read on, and now and then play what was read and write a state."""
        now, interval = time.monotonic(), self.settings.commit_interval_ms / 1000
        if now < self._next_poll and self._rows < MOST_ROWS:
            time.sleep(min(self._next_poll - now, wait_ms / 1000))
            return
        self._next_poll = time.monotonic() + interval / POLLS
        self._read(learning, 0)
        if time.monotonic() < self._due and self._rows < MOST_ROWS:
            return
        if self._behind():  # waited for no longer than a poll
            self._read(learning, 50)
        sent, labels = self._take(learning)
        if not sent and not labels:
            return
        played = learning.play(sent, labels)
        self._count(learning, played)
        self._write(learning, played)
        self._ask_lag()

    def _count(self, learning: Learning, played: Played) -> None:
        """Count what was learned."""
        tally, found, batch = self._tally, played.found, played.sent
        assert tally is not None
        names = None
        if self.settings.has_lanes:
            names = [batch.lanes[k].name for k in batch.of.tolist()]
        in_sets = 0 if self.settings.sets is None else sum(map(_in_sets, batch.lanes))
        tally.observed(len(batch), names, batch.columns or None, in_sets)
        tally.labelled(found.outcomes, found.taught, learning.learner.held)
        tally.refuse(len(played.bad), labels=True)
        delays, answered = list[int](), 0
        for one in found.taught:
            answered += one.prediction.asked is not None
            if one.label >= 0 and not math.isnan(one.prediction.time):
                made = played.labels[one.label].timestamp
                delays.append(made - int(1000 * one.prediction.time))
        self._count_requests(learning, tally)
        now, ours = time.time(), self.settings.field_names
        letters = [
            letter(_letter(record, error), now, ours) for record, error in played.bad[-KEPT:]
        ]
        asked = [one for one in found.asked if one is not None]
        self.metrics.handled(
            Handled(delays=delays, asked=asked, answered=answered, letters=letters), LEARNER
        )

    def _count_requests(self, learning: Learning, tally: Tally) -> None:
        if self.settings.ask is not None:
            n, oldest = learning.learner.open_requests
            tally.requests = n, None if oldest is None else int(1000 * oldest)

    def _ask_lag(self) -> None:
        """For /metrics and the page."""
        if time.monotonic() - self._lag_asked < LAG_SECONDS or self._reader is None:
            return
        self._lag_asked = time.monotonic()
        names = {self.settings.sent_topic: "sent", self.settings.labels or "": "labels"}
        lag = {
            (names[topic], p): n + len(self._queues[topic, p].waiting)
            for (topic, p), n in self._reader.lag().items()
        }
        self.metrics.lags(lag, LEARNER)

    def _read(self, learning: Learning, wait_ms: int) -> None:
        """Put what one poll brings into the queues."""
        assert self._reader is not None
        if self._bytes > WAITING_BYTES:
            return
        for (topic, p), records in self._reader.poll(wait_ms).items():
            queue = self._queues[topic, p]
            for record in records:
                self._bytes += size_of(record)
                if topic != self.settings.sent_topic:
                    queue.add(record.timestamp / 1000, 0, record)
                    continue
                batch = self._batch(record, learning.mark)
                if batch is None or not len(batch):
                    self.foreign += 1
                    continue
                self._rows += len(batch)
                when = float(batch.times[0])
                sent = SentRecord(record.offset, batch, size_of(record))
                queue.add(-math.inf if math.isnan(when) else when, len(batch), sent)

    def _take(self, learning: Learning) -> tuple[dict[int, list[SentRecord]], dict[int, list[Any]]]:
        """What to play: of what was read the oldest first, while nothing older can come."""
        sent: dict[int, list[SentRecord]] = {}
        labels: dict[int, list[Any]] = {}
        rows, topic = 0, self.settings.sent_topic
        heads = [
            (queue.waiting[0][0], place) for place, queue in self._queues.items() if queue.waiting
        ]
        heapq.heapify(heads)
        until = self._labels_until(learning)
        while heads and rows < MOST_ROWS:
            when, place = heapq.heappop(heads)
            queue = self._queues[place]
            if place[0] != topic and when > until:
                continue
            _, n, record = queue.waiting.popleft()
            rows += max(n, 1)
            if place[0] == topic:
                sent.setdefault(place[1], []).append(record)
                self._rows -= n
                self._bytes -= record.size
            else:
                labels.setdefault(place[1], []).append(record)
                self._bytes -= size_of(record)
            if queue.waiting:
                heapq.heappush(heads, (queue.waiting[0][0], place))
            elif self._reader is not None and self._reader.behind([place]):
                break  # what follows there may be older than what others have
        return sent, labels

    def _behind(self) -> bool:
        """Whether there is more to read of a partition of which nothing waits."""
        assert self._reader is not None
        return bool(
            self._reader.behind(p for p, queue in self._queues.items() if not queue.waiting)
        )

    def _labels_until(self, learning: Learning) -> float:
        """Up to which time labels may be learned now: where there is input that nobody has sent,
        not far ahead of it, or all of it would be held."""
        if not self._input_left(learning):
            return math.inf
        if learning.learner.held > SOFT_HELD:
            return -math.inf
        return learning.learner.clock + self.settings.label_wait

    def _input_left(self, learning: Learning) -> bool:
        """Whether there is input that was not learned from; asked for now and then."""
        if time.monotonic() - self._asked > ASK_SECONDS:
            self._asked = time.monotonic()
            begins = self.settings.start == "earliest"
            self._left = any(
                learning.inputs.get(p, begin if begins else end) < end
                for p, (begin, end) in self.client.readers.spans(self.settings.input).items()
            )
        return self._left

    def _write(self, learning: Learning, played: Played | None) -> None:
        """Write a state, and what else came of what was played, in one transaction."""
        transaction, begin = self.client.transaction, time.monotonic()
        size, where, begins = 0, {}, {}
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
        at = transaction.send(self.state_topic, MEMORY, INDEX, memory)
        if played is not None:
            self._send_letters(played)
            self._send_requests(played)
        transaction.deliver()
        index = learning.index(
            {name: future.value.offset for name, future in where.items()},
            {model: future.value.offset for model, future in begins.items()},
            at.value.offset,
        )
        written = transaction.send(self.state_topic, CORRECTORS, INDEX, index)
        transaction.deliver()
        transaction.commit({}, None)
        if played is not None and self._tally is not None:
            self.metrics.committed({LEARNER: self._tally}, time.monotonic() - begin, size)
        self.number = written.value.offset
        self.committed += 1
        pause = max(self.settings.commit_interval_ms / 1000, size / MOST_BYTES_A_SECOND)
        self._due = begin + pause

    def _send_letters(self, played: Played) -> None:
        """Dead letters of labels."""
        if self.settings.errors == "fail" and played.bad:
            record, error = played.bad[0]
            raise DeniedError(
                f"label at offset {record.offset} of {record.topic}-{record.partition}: {error};"
                ' errors = "fail" ends learning there'
            )
        of = self.client.readers.partitions(self.dead_letters) if played.bad else 1
        transaction = self.client.transaction
        letters = [_letter(record, error) for record, error in played.bad]
        accepts = transaction.accepts[self.dead_letters]
        refusals.date(letters, accepts, transaction.clock.now_ms())
        for one, (record, _) in zip(letters, played.bad, strict=True):
            transaction.send_all(self.dead_letters, record.partition % of, [one])

    def _send_requests(self, played: Played) -> None:
        """Label requests."""
        topic, asked = self.settings.requests_topic, played.found.asked
        for (partition, offset), reason in zip(played.places, asked, strict=False):
            if reason is None:
                continue
            says = {"topic": self.settings.input, "partition": partition, "offset": offset,
                    "reason": reason}  # fmt: skip
            self.client.transaction.send(
                topic, partition, None, msgspec.json.encode(says),
                [("stream-can-reason", reason.encode())],
            )  # fmt: skip

    def commit(self) -> None:
        """Nothing waits: what was played is in a state."""

    def close(self) -> None:
        """Let go of the topics."""
        self.drop()
