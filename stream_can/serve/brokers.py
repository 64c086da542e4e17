"""BrokerService: one of several servers; it corrects by states in a topic, and appends corrected
predictions and labels to topics for the learner."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from stream_can.app.correctors_in_use import CorrectorsInUse
from stream_can.app.counts import Handled
from stream_can.app.health import Health
from stream_can.app.labelling.requests import OpenRequests
from stream_can.app.metrics import Metrics
from stream_can.app.status_report import StatusReport
from stream_can.app.tally import Tally
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.guards import ClientError, RebuildError, RetryError
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.producer import Appended
from stream_can.kafka.client.topic_check import check_topics
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.following import Follower
from stream_can.kafka.identity import require_identity
from stream_can.kafka.pending import PendingRequests
from stream_can.kafka.record_corrector import RecordCorrector
from stream_can.kafka.retry import RetryPolicy
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import start_of
from stream_can.kafka.topics import topics_of
from stream_can.messages.fields import HEADER
from stream_can.messages.records import Line, Record
from stream_can.serve.appender import DELIVERY, Appender
from stream_can.serve.service import (
    Answers,
    NoBrokers,
    Service,
    Status,
    Unavailable,
)
from stream_can.serve.settings import INPUT, LABELS, ServeSettings

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.02
"""Seconds between two checks for a newer state."""
AGAIN_SECONDS = 1.0
"""Seconds between two attempts to read states after an error."""
LABEL_SECONDS = 10.0
"""Time limit for the brokers to accept a label."""
SHOWN_SECONDS = 15.0
"""Seconds between two log lines about a missing state."""
END_SECONDS = 7.0
"""Time limit for the rest when the server stops."""
NO_STATE = "there is no state yet: does the application's learner run (stream-can learn)?"


class BrokerService(Service):
    """A server without a file.

    Parameters
    ----------
    settings
        The server's settings.
    application
        The application's settings: brokers, topics and rules.

    Raises
    ------
    ValueError
        The application cannot be served.
    """

    statuses = ("taken",)

    def __init__(self, settings: ServeSettings, application: Settings) -> None:
        super().__init__()
        if application.formats != ("json", "json"):
            raise ValueError("format: a server reads and writes JSON; it is another here")
        self.settings, self._application = settings, application
        self.start = start = start_of(application)
        self._state_bytes = start.state_bytes
        self.health = Health(settings.live_seconds)
        self.tally = Tally((), lambda name: 0, named=settings.has_lanes, sets=False,
                           rows=settings.rows)  # fmt: skip
        self.metrics = Metrics(self._known)
        self.metrics.restored({0: self.tally}, 0.0)
        self._options = Options(
            application.bootstrap_servers,
            DELIVERY | application.client,
            compression=application.compression,
        )
        self.status_report = StatusReport(
            settings.application_id,
            application.state_topic,
            has_labels=application.labels is not None,
            health=self.health,
            metrics=self.metrics,
            known=self._known,
            over_http=True,
        )
        self._correcting = RecordCorrector(
            settings.fields, self.start.formats, self.start.segments, needs_id=True,
            rows=settings.rows,
        )  # fmt: skip
        self._labels = self._correcting
        if application.labels is not None:
            fields = application.label_fields[application.labels]
            if (fields.id or "").startswith(HEADER):
                raise ValueError(f"label_id: {fields.id}: labels over HTTP have no such header")
            id = fields.id or settings.fields.id  # it becomes the key
            self._labels = RecordCorrector(
                msgspec.structs.replace(fields, id=id),
                self.start.formats,
                self.start.segments,
                needs_id=True,
                rows=settings.rows,
            )
        self._state: CurrentState | None = None
        self._appender: Appender | None = None
        self._stopping = threading.Event()
        self._pending: PendingRequests | None = None
        self._failed: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._uncounted = False

    # -- requests --------------------------------------------------------------------------------

    def _state_and_appender(self) -> tuple[CurrentState, Appender]:
        if self._state is None or self._appender is None:
            raise Unavailable(NO_STATE)
        return self._state, self._appender

    def correct(self, messages: Sequence[bytes]) -> Answers:
        """See :meth:`Service.correct`."""
        state, appender = self._state_and_appender()
        now = int(1000 * time.time())
        records = [Record(INPUT, 0, i, now, None, message) for i, message in enumerate(messages)]
        groups, bad = self._correcting.read_records(records, state)
        if bad:
            state.forget()
            if not self._tries:
                self.tally.refused += state.refused
            state.refused = 0
            raise self._refuse(bad, len(messages), INPUT)
        output = self._correcting.correct_read(records, groups, bad, state)
        if output.sent is not None:
            appender.rows(output.sent, state)
        self.tally.answered(len(messages), output.corrected, without_id=len(output.without_id))
        self.metrics.handled(Handled(len(output.outputs), output.normalised, len(output.faults)))
        out = [record.value or b"" for record in output.outputs]
        return Answers(out, (b"stream-can-state", b"%d" % state.number))

    async def labels(self, messages: Sequence[bytes]) -> list[Status]:
        """See :meth:`Service.labels`; the learner learns them."""
        topic = self._application.labels
        if topic is None:
            raise Unavailable("labels: not set; name the topic of labels")
        state, appender = self._state_and_appender()
        lines, reader = [*map(Line, messages)], self._labels.labels_of(state)
        if bad := reader.parse(lines).bad:
            raise self._refuse(bad, len(messages), LABELS)
        labels = [
            Appended(topic, None, reader.id_of(line), message)
            for line, message in zip(lines, messages, strict=True)
        ]
        await self._appended(appender, labels)
        return ["taken"] * len(messages)

    async def _appended(self, appender: Appender, labels: Sequence[Appended] = ()) -> None:
        future = asyncio.wrap_future(appender.labels(labels))
        try:
            await asyncio.wait_for(future, LABEL_SECONDS)
        except TimeoutError:
            raise Unavailable(
                f"the brokers have not answered within {LABEL_SECONDS:g} s; send the label"
                " again: it counts once"
            ) from None

    async def written(self) -> None:
        """See :meth:`Service.written`: waits for the brokers."""
        _, appender = self._state_and_appender()
        await self._appended(appender)

    def requests_for(self, loop: asyncio.AbstractEventLoop) -> OpenRequests:
        """Label requests, read from their topic."""
        self._pending = PendingRequests(self._application)
        threading.Thread(target=self._read_requests, daemon=True).start()
        return self._pending

    def _read_requests(self) -> None:
        assert self._pending is not None
        try:
            self._pending.follow(self._stopping.is_set)
        except ClientError as error:
            log.error("label requests are not shown: %s", error)

    # -- status ----------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """The topics."""
        return f"corrects by {self._application.state_topic}"

    @property
    def _widest(self) -> int:
        if (state := self._state) is None:
            return len(self.start.classes)
        return self._correcting.messages(state).widest

    def _known(self) -> CorrectorsInUse | None:
        state = self._state
        return None if state is None else state.known(self._application)

    def _counted(self) -> None:
        self._uncounted = True

    def _show(self, seconds: float, size: int, dropped: int) -> None:
        """Count answered rows once they were appended or dropped."""
        self.tally.counts["dropped"] += dropped
        self.metrics.committed({0: self.tally}, seconds, size)
        self._uncounted = False

    # -- brokers ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the states and append what is taken, until :meth:`end`."""
        self._loop = asyncio.get_running_loop()
        follows = threading.Thread(target=self._run, args=(self._follow,), daemon=True)
        follows.start()
        while follows.is_alive():
            self.health.beat()
            if self._appender is not None:
                self.health.refuses_labels = self._appender.trouble
            await asyncio.sleep(0.05 if self._stopping.is_set() else 0.5)
            if self._uncounted:
                self._show(0.0, 0, 0)
        if isinstance(self._failed, RetryError):
            raise NoBrokers(str(self._failed)) from self._failed
        if self._failed is not None:
            raise self._failed

    def _run(self, function: Callable[[], None]) -> None:
        """Run a function in a thread; an error ends the server."""
        try:
            function()
        except BaseException as error:
            self._failed = self._failed or error
            self._stopping.set()

    def _follow(self) -> None:
        s = self._application
        patience = RetryPolicy(s.connect_seconds, s.name, self._stopping, self.health.beat)
        limits = patience.until_answered(self._check)
        appender = self._appender = Appender(
            self._options, s.sent_topic, s.name, limits,
            self.settings.commit_interval_ms / 1000, self._show_soon,
        )  # fmt: skip
        append = partial(appender.run, self._stopping)
        appends = threading.Thread(target=self._run, args=(append,), daemon=True)
        appends.start()
        try:
            self._use_states()
        finally:
            self._stopping.set()
            appends.join(END_SECONDS)
            if appends.is_alive():
                log.warning(
                    "the brokers do not answer: the last corrected predictions are not learned from"
                )

    def _show_soon(self, seconds: float, size: int, dropped: int) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._show, seconds, size, dropped)

    def _check(self) -> dict[str, int]:
        """Check topics and rights; return the maximum record size of each output topic."""
        s = self._application
        topics = topics_of(s, serves=True, state_bytes=self._state_bytes)
        with Admin(self._options, None) as admin:
            _, topic_limits = check_topics(admin, "", {}, topics, create=s.create_topics)
        outputs = [name for name, topic in topics.items() if "WRITE" in topic.rights]
        return {name: topic_limits[name].max_bytes for name in outputs}

    def _use_states(self) -> None:
        """Use each new state; outages of the brokers are waited out."""
        s, last_logged = self._application, time.monotonic()
        follower: Follower | None = None
        try:
            while not self._stopping.wait(LOOK_SECONDS):
                try:
                    if follower is None:
                        follower = Follower(
                            self._options,
                            s.state_topic,
                            lambda index: require_identity(index, s, self.start),
                            self.settings.switch.both(s.switch),
                        )
                    state = follower.look()
                except (RetryError, RebuildError) as error:
                    log.warning("%s; trying again", error)
                    if follower is not None:
                        follower.close()
                    follower = None
                    self._stopping.wait(AGAIN_SECONDS)
                    continue
                if state is not None and state is not self._state:
                    self._state, self.health.ready = state, True
                elif state is None and time.monotonic() - last_logged > SHOWN_SECONDS:
                    last_logged = time.monotonic()
                    log.warning(NO_STATE)
        finally:
            if follower is not None:
                follower.close()

    # -- its end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Do nothing: nothing was opened."""

    async def end(self, running: asyncio.Task[None]) -> None:
        """Append the rest."""
        self.health.ready = False
        self._stopping.set()
        try:
            await running
        finally:
            if self._pending is not None:
                self._pending.close()
