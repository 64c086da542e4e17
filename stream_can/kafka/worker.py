"""The loop of ``stream-can run``: poll, correct, send, commit; when in doubt, restore.

Whatever goes wrong between two commits, the answer is the same: give up the transaction and begin
again from what Kafka holds. Nothing that a Task learned survives a transaction that may not have.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from stream_can.kafka.client.accepts import OVERHEAD_BYTES
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
from stream_can.kafka.learned import Learned
from stream_can.kafka.partitions import Partitions
from stream_can.kafka.patience import Patience
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import Start
from stream_can.kafka.waiting import Waiting
from stream_can.kafka.watch.health import Health
from stream_can.kafka.watch.look import Look
from stream_can.kafka.watch.metrics import Metrics
from stream_can.kafka.watch.port import Port
from stream_can.kafka.watch.progress import Progress
from stream_can.stream.task import Task

log = logging.getLogger(__name__)

LAG_SECONDS = 5.0
"""How old the lag of /metrics may be."""
CLOSE_SECONDS = 30.0
"""For closing all clients: each has a time-out of its own."""
STOP_SECONDS = 10.0
"""For the last commit after SIGTERM."""


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
        self.client = Client(
            settings.bootstrap_servers,
            settings.application_id,
            settings.name,
            input=settings.input,
            labels=settings.labels,
            options=settings.client,
            compression=settings.compression,
            skip_damaged=settings.skip_damaged,
        )
        self.start = Start(settings)
        self.progress = Progress()
        self.health = Health(settings.live_seconds)
        self.port: Port | None = None
        self.learned = Learned(settings, self.client, self.start, self.health.beat)
        self.metrics = Metrics(lambda: self.learned.replicas, shown=settings.field_names)
        self._look = Look(
            settings.application_id,
            settings.name,
            together=settings.learn == "together",
            has_labels=settings.labels is not None,
            health=self.health,
            metrics=self.metrics,
            replicas=lambda: self.learned.replicas,
        )
        self._partitions = Partitions(
            settings, self.client, self.start, self.learned, self.metrics, self.health
        )
        self._waiting = Waiting(self.client.member, settings.input, settings.labels)
        self._stopping = threading.Event()
        self._patience = Patience(
            settings.connect_seconds, settings.name, self._stopping, self.health.beat
        )
        self._lag_asked = 0.0
        self._known = 0

    @property
    def tasks(self) -> dict[int, Task]:
        """The partitions that are ours and restored."""
        return self._partitions.tasks

    # -- start and stop --------------------------------------------------------------------------

    def check(self) -> int:
        """Check topics, rights and sizes against the brokers; the number of partitions."""
        s = self.settings
        state, dead_letters = s.own_topics
        state_bytes = len(self.start.snapshot) + 200

        def check() -> int:
            return self.client.check(
                writes=[s.output, dead_letters, *([s.requests_topic] if s.ask else [])],
                state=state,
                learned=s.learned_topic,
                apart=s.learn == "apart",
                state_bytes=state_bytes,
                create=s.create_topics,
            )

        partitions = self._patience.until_answered(check)
        if self.client.transaction.accepts[dead_letters].compacted:
            raise DeniedError(
                f"dead-letter topic {dead_letters!r} is compacted: of letters with one key the last"
                " alone would be kept; set cleanup.policy=delete"
            )
        self._known = partitions
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
            registry, status = self.metrics.registry, self._look.json
            self.port = Port(s.http_host, s.http_port, self.health, registry, status)
        answered = True
        try:
            self.check()
            self._patience.until_joined(self.client.open, self.client.rejoin)
            self._loop()
            self._last_commit()
        except RetryError:
            answered = False
            if not self._stopping.is_set():
                raise
        finally:
            self.health.ready = False
            # Where no broker answers, nobody is there to hear that we leave.
            with contextlib.suppress(ClientError):
                within(CLOSE_SECONDS if answered else 0.5, self.learned.close)
            with contextlib.suppress(ClientError):
                within(CLOSE_SECONDS if answered else 0.5, self.client.close, answered)
            self.progress.end()
            if self.port is not None:
                self.port.close()

    def stop(self) -> None:
        """End `run` after the record batch at hand. May be called from any thread."""
        self._stopping.set()

    def _last_commit(self) -> None:
        try:
            within(STOP_SECONDS, self._partitions.commit, True)
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
                self._patience.before_restore(error, self._partitions.committed)
                self._patience.until_joined(self.client.rebuild, self.client.rejoin)
            except FencedError as error:
                self._drop()
                self._patience.note_fence(error)
                self._patience.until_joined(self.client.rejoin, self.client.rejoin)

    def _drop(self) -> None:
        self._partitions.drop()
        self._waiting.assign(())

    def _step(self) -> None:
        partitions, member = self._partitions, self.client.member
        wait_ms = 0 if self._waiting.more else min(100, max(1, int(partitions.interval * 500)))
        found = member.poll(wait_ms)
        try:
            assignment = member.take_rebalance()
        except RetryError:
            self.check()  # some topic may have fewer partitions than the input has now
            raise
        if assignment is not None:
            try:
                self._take_over(assignment)
            except RetryError as error:  # half restored is not restored
                raise RebuildError(str(error)) from error
            return
        self.learned.advance()
        self._waiting.add(found)
        for partition, records in self._waiting.take(partitions.room).items():
            partitions.handle(partition, records)
        if partitions.due:
            partitions.commit()
        self.progress.show(partitions.committed, self.tasks, self.client)
        self._ask_lag()

    def _take_over(self, assignment: Assignment) -> None:
        self._drop()
        self.client.transaction.abort()
        if assignment.token is None:
            return  # between two assignments
        if assignment.partitions and assignment.partitions[-1] >= self._known:
            self.check()  # partitions were added: the other topics have them too, or it says so
        self._partitions.restore(assignment)
        self._waiting.assign(assignment.partitions)

    def _ask_lag(self) -> None:
        """For /metrics."""
        due = time.monotonic() - self._lag_asked >= LAG_SECONDS
        if self.port is None or not due or not self.tasks or self.client.member.rebalanced:
            return
        self._lag_asked = time.monotonic()
        self.metrics.lags(self._waiting.lag())
