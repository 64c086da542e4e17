"""The loop of ``stream-can run``: poll, correct, send, commit; when in doubt, restore.

Whatever goes wrong between two commits, the answer is the same: give up the transaction and begin
again from what Kafka holds. Nothing that a Task learned survives a transaction that may not have.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from stream_can.errors import StreamCANError
from stream_can.kafka import restore as state
from stream_can.kafka.client.admin import OVERHEAD_BYTES
from stream_can.kafka.client.guards import (
    ClientError,
    DeniedError,
    FencedError,
    RebuildError,
    RetryError,
    within,
)
from stream_can.kafka.client.member import Assignment, Client, Offset
from stream_can.kafka.order import Order
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import Start
from stream_can.kafka.watch.metrics import Metrics
from stream_can.kafka.watch.port import Health, Port
from stream_can.kafka.watch.progress import Progress, set_up_logging
from stream_can.stream.fields import Fields
from stream_can.stream.task import Task

log = logging.getLogger(__name__)

STATE_BYTES_PER_SECOND = 4_000_000
"""Commits become rarer where snapshots would be written faster than this."""
LONGEST_INTERVAL = 4.0
"""But not rarer than this many seconds: a transaction times out after 15."""
LAG_SECONDS = 5.0
"""How old the lag of /metrics may be: asking for it costs a request."""
MOST_WAITING = 10_000
"""Records of one partition read ahead of what they wait for; then its topic is not fetched."""
STOP_SECONDS = 10.0
"""For the last commit after SIGTERM."""
FENCE_SECONDS = 60.0
"""Two fences within so long mean that another process lives under our name."""

EXIT_CODES = {0: "stopped by a signal, or --check found nothing wrong",
              1: "a bug, with its traceback",
              2: "settings are wrong",
              3: "refused: topics, rights, sizes, or state that cannot be restored",
              4: "no broker within connect_seconds",
              5: "another process runs under the same application_id and instance",
              6: "--errors fail: a record cannot be read"}  # fmt: skip


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
        self._lag_asked = 0.0
        self.tasks: dict[int, Task] = {}
        self._orders: dict[int, Order] = {}
        self._token: Any = None
        self._changed: set[int] = set()
        self._handled = 0
        self._committed = time.monotonic()
        self._interval = settings.commit_interval_ms / 1000
        self._partitions = 1
        self._fenced = -FENCE_SECONDS
        self._stopping = threading.Event()

    # -- start and stop --------------------------------------------------------------------------

    def check(self) -> int:
        """Check topics, rights and sizes against the brokers; the number of partitions."""
        s = self.settings
        state_bytes = len(self._fresh(0, 0).to_bytes())

        def check() -> int:
            return self.client.check(
                writes=[s.output, self.dead_letters],
                state=self.state_topic,
                state_bytes=state_bytes,
                create=s.create_topics,
            )

        self._partitions = self._patiently(check)
        return self._partitions

    def run(self) -> None:
        """Work until `stop`; then commit what is done and leave the group.

        Raises
        ------
        DeniedError, FencedError, RetryError, UnreadableRecord
            See `EXIT_CODES`.
        """
        s = self.settings
        if s.http_port is not None:  # before the brokers answer: waiting for them is alive
            self.port = Port(s.http_host, s.http_port, self.health, self.metrics)
        try:
            self.check()
            self._join(self.client.open)
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

    def _patiently(self, call: Callable[[], Any]) -> Any:
        """``call()`` again and again while no broker answers, with pauses that grow to 5 s."""
        deadline = time.monotonic() + self.settings.connect_seconds
        pause = 0.2
        while True:
            self.health.beat()
            try:
                return call()
            except (RetryError, RebuildError) as error:
                if time.monotonic() > deadline or self._stopping.is_set():
                    raise RetryError(str(error)) from error
                log.warning("%s; trying again", error)
                self._stopping.wait(pause)
                pause = min(2 * pause, 5)

    def _last_commit(self) -> None:
        try:
            if self._changed and not self.client.rebalanced:
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
                self._join(self.client.rebuild)
            except FencedError as error:
                self._drop()
                self._note_fence(error)
                self._join(self.client.rejoin)

    def _join(self, call: Callable[[], None]) -> None:
        """``call()``, patiently; where that is fenced, join again."""
        while not self._stopping.is_set():
            try:
                self._patiently(call)
                return
            except FencedError as error:
                self._note_fence(error)
                call = self.client.rejoin

    def _note_fence(self, error: FencedError) -> None:
        now = time.monotonic()
        if now - self._fenced < FENCE_SECONDS:
            raise FencedError(
                f"{error}. This is the second time within {FENCE_SECONDS:.0f} s: does"
                f" another process run with instance {self.settings.name!r}?"
            ) from error
        self._fenced = now
        log.warning("%s; joining again", error)

    def _drop(self) -> None:
        """Forget everything that Kafka may not know of."""
        self.metrics.given_up("aborted")
        self.health.ready = False
        self.tasks, self._orders, self._token = {}, {}, None
        self._changed, self._handled = set(), 0

    def _step(self) -> None:
        found = self.client.poll(min(100, max(1, int(self._interval * 500))))
        assignment = self.client.take_rebalance()
        if assignment is not None:
            try:
                self._take_over(assignment)
            except RetryError as error:  # half restored is not restored
                raise RebuildError(str(error)) from error
            return
        for (topic, partition), records in found.items():
            self._orders[partition].add(topic, records)
        self._hold()
        exhausted = self._exhausted()
        for partition, order in self._orders.items():
            if records := order.take(self.settings.commit_every, exhausted=partition in exhausted):
                self._handle(partition, records)
        if self._changed and (
            time.monotonic() - self._committed >= self._interval
            or self._handled >= self.settings.commit_every
        ):
            self._commit()
        self.progress.show(self.tasks, self.client)
        self._ask_lag()

    def _take_over(self, assignment: Assignment) -> None:
        self._drop()
        self.client.abort()
        if assignment.token is None:
            return  # between two assignments
        begin = time.monotonic()
        s = self.settings
        rules = state.Rules(s.start, s.reset_state, s.skip_gap)
        for partition in assignment.partitions:
            self.health.beat()
            task = state.restore(
                self.client, partition, self.state_topic, self._fresh, self._stored, rules
            )
            self.client.start_at(s.input, partition, task.next_prediction)
            if s.labels:
                self.client.start_at(s.labels, partition, task.next_label)
            self.tasks[partition] = task
            self._orders[partition] = Order(s.labels)
        self._token = assignment.token
        self._committed = time.monotonic()
        seconds = time.monotonic() - begin
        self.metrics.restored(self.tasks, seconds)
        self.health.ready = self._token is not None
        log.info("partitions %s, restored in %.2f s", list(assignment.partitions), seconds)

    def _ask_lag(self) -> None:
        """For /metrics: what was not read yet, and what was read and waits."""
        due = time.monotonic() - self._lag_asked >= LAG_SECONDS
        if self.port is None or not due or not self._orders or self.client.rebalanced:
            return
        self._lag_asked = time.monotonic()
        topics = {"input": self.settings.input, "labels": self.settings.labels}
        pairs = {(side, p): (t, p) for side, t in topics.items() if t for p in self._orders}
        unread, lag = self.client.lag(pairs.values()), {}
        for (side, partition), pair in pairs.items():
            order = self._orders[partition]
            waiting = order.labels if side == "labels" else order.predictions
            lag[side, partition] = unread[pair] + len(waiting)
        self.metrics.lag = lag

    def _hold(self) -> None:
        """Do not fetch further ahead what has to wait for the other side."""
        if self.settings.labels is None:
            return
        for partition, order in self._orders.items():
            for topic, waiting in (
                (self.settings.input, order.predictions), (self.settings.labels, order.labels),
            ):  # fmt: skip
                self.client.hold(topic, partition, len(waiting) > MOST_WAITING)

    def _exhausted(self) -> set[int]:
        """Partitions whose empty side has nothing more to read."""
        s = self.settings
        sides = {"labels": s.labels, "predictions": s.input}
        asked = {
            partition: (sides[side], partition)
            for partition, order in self._orders.items()
            if (side := order.waits_for())
        }
        if not asked:
            return set()
        lag = self.client.lag(asked.values())  # type: ignore[arg-type]
        return {partition for partition, pair in asked.items() if lag[pair] <= 0}  # type: ignore[index]

    def _handle(self, partition: int, records: list[Any]) -> None:
        result = self.tasks[partition].handle(records)
        self.metrics.handled(result)
        self.client.send_all(self.settings.output, partition, result.outputs)
        for out in result.dead_letters:
            size = len(out.key or b"") + len(out.value or b"") + OVERHEAD_BYTES
            size += sum(len(name) + len(value) for name, value in out.headers)
            if size > self.client.limits[self.dead_letters]:
                where = {name: value.decode(errors="replace") for name, value in out.headers}
                raise DeniedError(
                    f"a dead letter of {size} bytes does not fit {self.dead_letters!r}"
                    f" (max.message.bytes={self.client.limits[self.dead_letters]}): offset"
                    f" {where.get('__connect.errors.offset')} of"
                    f" {where.get('__connect.errors.topic')}-{partition}; raise the topic's limit"
                )
        self.client.send_all(self.dead_letters, partition, result.dead_letters)
        self._changed.add(partition)
        self._handled += len(records)
        if result.stopped is not None:
            record, error = result.stopped
            self._commit()  # what came before it is done
            raise UnreadableRecord(
                f"offset {record.offset} of {record.topic}-{partition}: {error}"
            ) from error

    def _commit(self) -> None:
        if self.client.rebalanced:
            return  # the next step aborts and restores
        s, begin = self.settings, time.monotonic()
        sent, written = {}, 0
        for partition in sorted(self._changed):
            snapshot = self.tasks[partition].to_bytes()
            written += len(snapshot)
            sent[partition] = self.client.send(
                self.state_topic, partition, state.key(s.input, partition), snapshot
            )
        self.client.deliver()
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

    # -- tasks -----------------------------------------------------------------------------------

    def task_options(self) -> dict[str, Any]:
        """Arguments of a `Task` over these topics, but for its Corrector and positions."""
        s = self.settings
        limit = self.client.limits.get(s.output)
        return {
            "fields": Fields(probs=s.probs, raw=s.raw, label=s.label, id=s.id, digits=s.digits),
            "labels_topic": s.labels,
            "recent_bytes": int(s.recent_mb * (1 << 20)) // self._partitions,
            "max_bytes": None if limit is None else limit - OVERHEAD_BYTES,
            "errors": s.errors,
        }

    def _fresh(self, next_prediction: int, next_label: int) -> Task:
        corrector = self.start.corrector()
        return Task(
            corrector, **self.task_options(), next_prediction=next_prediction, next_label=next_label
        )

    def _stored(self, snapshot: bytes) -> Task:
        start = self.start
        return Task.from_bytes(
            snapshot, classes=start.classes, settings=start.settings, **self.task_options()
        )


def run(settings: Settings) -> int:
    """What ``stream-can run`` does: set up logging, work until SIGTERM or SIGINT.

    Returns
    -------
    One of `EXIT_CODES`.
    """
    set_up_logging(settings.log_format, settings.log_level)
    try:
        worker = Worker(settings)
    except (StreamCANError, ValueError) as error:
        return _fail(2, error)
    try:
        if settings.check:
            partitions = worker.check()
            log.info(
                "all is well: %d partitions, %d classes", partitions, len(worker.start.classes)
            )
            return 0

        def stop(number: int, _: object) -> None:
            log.info("%s: stopping", signal.Signals(number).name)
            worker.stop()
            signal.signal(number, signal.SIG_DFL)  # the second one ends the process

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        worker.run()
        return 0
    except DeniedError as error:
        return _fail(3, error)
    except RetryError as error:
        return _fail(4, error)
    except FencedError as error:
        return _fail(5, error)
    except UnreadableRecord as error:
        return _fail(6, error)


def _fail(code: int, error: Exception) -> int:
    log.error("%s", error)
    sys.stderr.flush()
    return code
