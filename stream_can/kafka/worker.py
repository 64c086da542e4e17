"""The loop of ``stream-can run``: poll, correct, send, commit; when in doubt, restore.

Whatever goes wrong between two commits, the answer is the same: give up the transaction and begin
again from what Kafka holds. Nothing that a Task learned survives a transaction that may not have.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time

from stream_can.app.health import Health
from stream_can.app.look import Look
from stream_can.app.metrics import Metrics
from stream_can.app.port import Port
from stream_can.kafka.client.accepts import OVERHEAD_BYTES
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import (
    ClientError,
    DeniedError,
    FencedError,
    NoRight,
    RebuildError,
    RetryError,
    within,
)
from stream_can.kafka.client.member import Assignment
from stream_can.kafka.client.registry import RegistryDown
from stream_can.kafka.known import known
from stream_can.kafka.learned import LearnedLog
from stream_can.kafka.partitions import Partitions
from stream_can.kafka.patience import Patience
from stream_can.kafka.progress import Progress
from stream_can.kafka.schemas import Asked, RegistryAway, check
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import TaskStart
from stream_can.kafka.waiting import Waiting
from stream_can.stream.task import Task

log = logging.getLogger(__name__)

LAG_SECONDS = 5.0
"""How old the lag of /metrics may be."""
CLOSE_SECONDS = 30.0
"""For closing all clients: each has a time-out of its own."""
EXPLAIN_SECONDS = 15.0
"""For asking what is behind an error, and between two such questions while no broker answers."""
EXPLAIN_TRIES, EXPLAIN_PAUSE = 3, 1.0
"""How often rights are asked for after a refusal: another broker may not have heard of it yet."""
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
        self.start = TaskStart(settings)
        self.progress = Progress()
        self.health = Health(settings.live_seconds)
        self.port: Port | None = None
        self.learned_log = LearnedLog(settings, self.client, self.start, self.health.beat)
        self.metrics = Metrics(
            lambda: known(self.learned_log.replicas),
            waits_for=lambda: self.health.waits_for,
        )
        self._look = Look(
            settings.application_id,
            settings.name,
            together=settings.learn == "together",
            has_labels=settings.labels is not None,
            health=self.health,
            metrics=self.metrics,
            known=lambda: known(self.learned_log.replicas),
        )
        self._partitions = Partitions(
            settings, self.client, self.start, self.learned_log, self.metrics, self.health
        )
        self._schemas = Asked(self.start.formats, settings.labels, settings.connect_seconds)
        ready = None if settings.schema_registry is None else self._schemas.ready
        self._waiting = Waiting(self.client.member, settings.input, settings.labels, ready)
        self._stopping = threading.Event()
        self._patience = Patience(
            settings.connect_seconds, settings.name, self._stopping, self.health.beat
        )
        self._lag_asked = 0.0
        self._explained = -EXPLAIN_SECONDS
        self._known = 0
        """How many partitions all topics had when they were last looked at."""
        self._left: list[int] = []
        """Ours, and not in all topics yet: nothing is done with these."""
        self._looked = 0.0
        self._look_seconds = self.client.options.seconds("metadata_max_age")

    @property
    def tasks(self) -> dict[int, Task]:
        """The partitions that are ours and restored."""
        return self._partitions.tasks

    # -- start and stop --------------------------------------------------------------------------

    def check(self) -> int:
        """Check topics, rights and sizes against the brokers; the number of partitions."""
        s, dead_letters = self.settings, self.settings.own_topics[1]
        # Whoever checks wants to know now what is wrong with an address.
        ask = self._check
        partitions = ask() if s.check else self._patience.until_answered(ask)
        if self.client.transaction.accepts[dead_letters].compacted:
            raise DeniedError(
                f"dead-letter topic {dead_letters!r} is compacted: of letters with one key the last"
                " alone would be kept; set cleanup.policy=delete"
            )
        self._known = partitions
        self.start.fit_to(partitions, self.client.transaction.limits[s.output] - OVERHEAD_BYTES)
        return partitions

    def check_schemas(self) -> None:
        """Ask the schema registry, where there is one, whether it takes the output's schema."""
        if self.settings.check:
            check(self.settings, self.start.formats)
        else:
            self._patience.until_answered(lambda: check(self.settings, self.start.formats))

    def _check(self) -> int:
        s = self.settings
        state, dead_letters = s.own_topics
        return self.client.check(
            writes=[s.output, dead_letters, *([s.requests_topic] if s.ask else [])],
            state=state,
            learned=s.learned_topic,
            apart=s.learn == "apart",
            state_bytes=self.start.state_bytes,
            create=s.create_topics,
        )

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
            self.check_schemas()
            self._patience.until_answered(self.learned_log.compare)
            self._patience.until_joined(self.client.open, self.client.rejoin)
            self._loop()
            self._last_commit()
        except NoRight:
            for _ in range(EXPLAIN_TRIES):
                self._explain()
                self._stopping.wait(EXPLAIN_PAUSE)
            raise
        except RetryError:
            answered = False
            if not self._stopping.is_set():
                raise
        finally:
            self.health.ready = False
            # Where no broker answers, nobody is there to hear that we leave.
            with contextlib.suppress(ClientError):
                within(CLOSE_SECONDS if answered else 0.5, self.learned_log.close)
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
        """Step until `stop`, and answer each of the errors that a step may raise.

        RetryError: nothing happened, step again. RebuildError: restore from Kafka. FencedError:
        join again. Whatever else is raised ends the worker.
        """
        away_since = None
        while not self._stopping.is_set():
            self.health.beat()
            try:
                self._step()
                away_since = None
            except RegistryAway:
                raise
            except RetryError as error:
                if away_since is None or time.monotonic() - self._explained > EXPLAIN_SECONDS:
                    self._explain()
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > self.settings.connect_seconds:
                    raise
                log.warning("%s; trying again", error)
                self._stopping.wait(0.2)
            except RebuildError as error:
                if error.__cause__ is not None:
                    self._explain()
                log.warning("%s; restoring from Kafka", error)
                self._drop()
                if isinstance(error.__cause__, RegistryDown):
                    self._patience.until_answered(self._schemas.ping)
                self._patience.before_restore(error, self._partitions.committed)
                self._patience.until_joined(self.client.rebuild, self.client.rejoin)
            except FencedError as error:
                self._drop()
                self._patience.note_fence(error)
                self._patience.until_joined(self.client.rejoin, self.client.rejoin)

    def _explain(self) -> None:
        """Raise DeniedError where a topic that is gone or a right that was revoked is behind an
        error, whose own words name another topic or none; topics are made where we may.
        """
        self.health.beat()
        for ask in (self._check, self.client.require_identity):
            with contextlib.suppress(RetryError):
                within(EXPLAIN_SECONDS, ask, otherwise=RetryError)
        self._explained = time.monotonic()

    def _drop(self) -> None:
        self._partitions.drop()
        self._waiting.assign(())

    def _step(self) -> None:
        """One poll, and what follows of it: take an assignment over, or correct and commit."""
        partitions, member = self._partitions, self.client.member
        # Once the time has passed there is nothing to commit, and a record ends the wait.
        wait_ms = 0 if self._waiting.more else min(100, math.ceil(1000 * partitions.left) or 100)
        found = member.poll(wait_ms)
        try:
            assignment = member.take_rebalance()
        except RetryError:
            self.check()  # the others get as many partitions as the input, where we may
            raise
        if assignment is not None:
            try:
                self._take_over(assignment)
            except RetryError as error:  # half restored is not restored
                raise RebuildError(str(error)) from error
            return
        self.learned_log.advance()
        self.learned_log.require_current(self.tasks)
        self._waiting.add(found)
        for partition, records in self._waiting.take(partitions.room, partitions.patience).items():
            try:
                partitions.handle(partition, records)
            except RetryError as error:  # these records would be passed over
                raise RebuildError(str(error)) from error
        self.health.waits_for = self._schemas.trouble
        if partitions.due:
            partitions.commit()
        self._look_for_more()
        self.progress.show(partitions.committed, self.tasks, self.client)
        self._ask_lag()

    def _take_over(self, assignment: Assignment) -> None:
        self._drop()
        self.client.transaction.abort()
        if assignment.token is None:
            return  # between two assignments
        added = assignment.partitions and assignment.partitions[-1] >= self._known
        if added or self.client.member.uneven():
            self.check()  # partitions were added: the other topics have them too, or will have
        ours = tuple(p for p in assignment.partitions if p < self._known)
        self._left = [p for p in assignment.partitions if p >= self._known]
        self._looked = time.monotonic()
        self.client.member.leave_alone(self._left)
        self._partitions.restore(assignment._replace(partitions=ours))
        self._waiting.assign(ours)

    def _look_for_more(self) -> None:
        """Whether all topics have more partitions now, where some of ours wait for that; restore
        with them. Asked for between transactions, as often as a client looks at its topics.
        """
        age = time.monotonic() - self._looked
        if not self._left or self._partitions.open or age < self._look_seconds:
            return
        with contextlib.suppress(RetryError):
            if within(EXPLAIN_SECONDS, self._check, otherwise=RetryError) > self._known:
                self.client.member.ask_again()
        self._looked = time.monotonic()

    def _ask_lag(self) -> None:
        """For /metrics."""
        due = time.monotonic() - self._lag_asked >= LAG_SECONDS
        if self.port is None or not due or not self.tasks or self.client.member.rebalanced:
            return
        self._lag_asked = time.monotonic()
        self.metrics.lags(self._waiting.lag())
