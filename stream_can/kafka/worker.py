"""The loop of ``stream-can run``: poll, correct, send, commit; when in doubt, restore.

Whatever goes wrong between two commits, the answer is the same: give up the transaction and begin
again from what Kafka holds. Nothing that a Task learned survives a transaction that may not have.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from stream_can.errors import StreamCANError
from stream_can.kafka import restore as state
from stream_can.kafka.client.admin import OVERHEAD_BYTES
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import (
    ClientError,
    DeniedError,
    FencedError,
    RebuildError,
    RetryError,
    within,
)
from stream_can.kafka.client.member import Assignment
from stream_can.kafka.client.transaction import Offset
from stream_can.kafka.patience import Patience
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import Start
from stream_can.kafka.waiting import Waiting
from stream_can.kafka.watch.health import Health
from stream_can.kafka.watch.metrics import Metrics
from stream_can.kafka.watch.port import Port
from stream_can.kafka.watch.progress import Progress
from stream_can.stream.records import Output
from stream_can.stream.task import Task

log = logging.getLogger(__name__)

STATE_BYTES_PER_SECOND = 4_000_000
"""Commits become rarer where snapshots would be written faster than this."""
LONGEST_INTERVAL = 4.0
"""But not rarer than this many seconds: a transaction times out after 15."""
LAG_SECONDS = 5.0
"""How old the lag of /metrics may be: asking for it costs a request."""
STOP_SECONDS = 10.0
"""For the last commit after SIGTERM."""


class UnreadableRecord(StreamCANError):
    """A record cannot be read, and ``errors="fail"`` says to stop there."""


class Worker:
    """One process of an application: corrects the partitions that the group gives it.

    Parameters
    ----------
    settings
        What to run; see `Settings`.

    Examples
    --------
    ::

        worker = Worker(load("app.toml", {}, os.environ))
        worker.run()  # until worker.stop() is called, from a signal handler or another thread
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state_topic, self.dead_letters = settings.own_topics
        self.client = Client(
            settings.bootstrap_servers,
            settings.application_id,
            settings.name,
            input=settings.input,
            labels=settings.labels,
            options=settings.client,
        )
        self.start = Start(settings)
        self.progress = Progress()
        self.metrics = Metrics()
        self.health = Health(settings.live_seconds)
        self.port: Port | None = None
        self.tasks: dict[int, Task] = {}
        self._waiting = Waiting(self.client.member, settings.input, settings.labels)
        self._stopping = threading.Event()
        self._patience = Patience(
            settings.connect_seconds, settings.name, self._stopping, self.health.beat
        )
        self._token: Any = None
        self._changed: set[int] = set()
        self._handled = 0
        self._committed = time.monotonic()
        self._interval = settings.commit_interval_ms / 1000
        self._lag_asked = 0.0

    # -- start and stop --------------------------------------------------------------------------

    def check(self) -> int:
        """Check topics, rights and sizes against the brokers; the number of partitions."""
        s = self.settings
        state_bytes = len(self.start.fresh(0, 0).to_bytes())

        def check() -> int:
            return self.client.check(
                writes=[s.output, self.dead_letters],
                state=self.state_topic,
                state_bytes=state_bytes,
                create=s.create_topics,
            )

        partitions = self._patience.until_answered(check)
        self.start.fit_to(partitions, self.client.transaction.limits[s.output] - OVERHEAD_BYTES)
        return partitions

    def run(self) -> None:
        """Work until `stop`; then commit what is done and leave the group.

        Raises
        ------
        DeniedError, FencedError, RetryError, UnreadableRecord
            See `EXIT_CODES`.
        """
        s = self.settings
        if s.http_port is not None:  # before the brokers answer: waiting for them is alive
            self.port = Port(s.http_host, s.http_port, self.health, self.metrics.registry)
        try:
            self.check()
            self._patience.until_joined(self.client.open, self.client.rejoin)
            self._loop()
            self._last_commit()
        finally:
            self.health.ready = False
            self.client.close()
            self.progress.end()
            if self.port is not None:
                self.port.close()

    def stop(self) -> None:
        """End `run` after the record batch at hand. May be called from any thread."""
        self._stopping.set()

    def _last_commit(self) -> None:
        try:
            if self._changed and not self.client.member.rebalanced:
                within(STOP_SECONDS, self._commit)
        except ClientError as error:
            log.warning(
                "the last records were not committed, the next owner repeats them: %s", error
            )

    # -- the loop --------------------------------------------------------------------------------

    def _loop(self) -> None:
        away_since = None
        while not self._stopping.is_set():
            self.health.beat()
            try:
                self._step()
                away_since = None
            except RetryError as error:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > self.settings.connect_seconds:
                    raise
                log.warning("%s; trying again", error)
                self._stopping.wait(0.2)
            except RebuildError as error:
                log.warning("%s; restoring from Kafka", error)
                self._drop()
                self._patience.until_joined(self.client.rebuild, self.client.rejoin)
            except FencedError as error:
                self._drop()
                self._patience.note_fence(error)
                self._patience.until_joined(self.client.rejoin, self.client.rejoin)

    def _step(self) -> None:
        found = self.client.member.poll(min(100, max(1, int(self._interval * 500))))
        assignment = self.client.member.take_rebalance()
        if assignment is not None:
            try:
                self._take_over(assignment)
            except RetryError as error:  # half restored is not restored
                raise RebuildError(str(error)) from error
            return
        self._waiting.add(found)
        for partition, records in self._waiting.take(self.settings.commit_every):
            self._handle(partition, records)
        if self._changed and (
            time.monotonic() - self._committed >= self._interval
            or self._handled >= self.settings.commit_every
        ):
            self._commit()
        self.progress.show(self.tasks, self.client)
        self._ask_lag()

    def _ask_lag(self) -> None:
        """For /metrics."""
        due = time.monotonic() - self._lag_asked >= LAG_SECONDS
        if self.port is None or not due or not self.tasks or self.client.member.rebalanced:
            return
        self._lag_asked = time.monotonic()
        self.metrics.lags(self._waiting.lag())

    # -- an assignment ---------------------------------------------------------------------------

    def _drop(self) -> None:
        """Forget everything that Kafka may not know of."""
        self.metrics.given_up("aborted")
        self.health.ready = False
        self.tasks, self._token = {}, None
        self._waiting.assign(())
        self._changed, self._handled = set(), 0

    def _take_over(self, assignment: Assignment) -> None:
        self._drop()
        self.client.transaction.abort()
        if assignment.token is None:
            return  # between two assignments
        begin = time.monotonic()
        s, member = self.settings, self.client.member
        rules = state.Rules(s.start, s.reset_state, s.skip_gap)
        for partition in assignment.partitions:
            self.health.beat()
            task = state.restore(
                self.client, partition, self.state_topic, self.start.fresh, self.start.stored, rules
            )
            member.start_at(s.input, partition, task.next_prediction)
            if s.labels:
                member.start_at(s.labels, partition, task.next_label)
            self.tasks[partition] = task
        self._waiting.assign(assignment.partitions)
        self._token = assignment.token
        self._committed = time.monotonic()
        seconds = time.monotonic() - begin
        self.metrics.restored(self.tasks, seconds)
        self.health.ready = True
        log.info("partitions %s, restored in %.2f s", list(assignment.partitions), seconds)

    # -- a transaction ---------------------------------------------------------------------------

    def _handle(self, partition: int, records: list[Any]) -> None:
        result = self.tasks[partition].handle(records)
        self.metrics.handled(result)
        send_all = self.client.transaction.send_all
        send_all(self.settings.output, partition, result.outputs)
        for out in result.dead_letters:
            self._require_fits(out, partition)
        send_all(self.dead_letters, partition, result.dead_letters)
        self._changed.add(partition)
        self._handled += len(records)
        if result.stopped is not None:
            record, error = result.stopped
            self._commit()  # what came before it is done
            raise UnreadableRecord(
                f"offset {record.offset} of {record.topic}-{partition}: {error}"
            ) from error

    def _require_fits(self, out: Output, partition: int) -> None:
        """Brokers would refuse a larger dead letter, again after each restore."""
        size = len(out.key or b"") + len(out.value or b"") + OVERHEAD_BYTES
        size += sum(len(name) + len(value) for name, value in out.headers)
        limit = self.client.transaction.limits[self.dead_letters]
        if size > limit:
            where = {name: value.decode(errors="replace") for name, value in out.headers}
            raise DeniedError(
                f"a dead letter of {size} bytes does not fit {self.dead_letters!r}"
                f" (max.message.bytes={limit}): offset {where.get('__connect.errors.offset')} of"
                f" {where.get('__connect.errors.topic')}-{partition}; raise the topic's limit"
            )

    def _commit(self) -> None:
        if self.client.member.rebalanced:
            return  # the next step aborts and restores
        s, begin, transaction = self.settings, time.monotonic(), self.client.transaction
        sent, written = {}, 0
        for partition in sorted(self._changed):
            snapshot = self.tasks[partition].to_bytes()
            written += len(snapshot)
            sent[partition] = transaction.send(
                self.state_topic, partition, state.key(s.input, partition), snapshot
            )
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
        self.metrics.committed(tasks, time.monotonic() - begin, written)
        self.progress.records += self._handled
        self._changed, self._handled = set(), 0
        self._committed = time.monotonic()
        self._interval = max(
            s.commit_interval_ms / 1000, min(written / STATE_BYTES_PER_SECOND, LONGEST_INTERVAL)
        )
