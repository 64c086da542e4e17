"""Worker: a process of ``stream-can run`` or ``learn``, its loops and its status page."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from stream_can.app.correctors_in_use import CorrectorsInUse
from stream_can.app.health import Health
from stream_can.app.metrics import Metrics
from stream_can.app.models import DeclaredCorrector
from stream_can.app.port import Port
from stream_can.app.start import NO_CLASSES
from stream_can.app.status_report import StatusReport
from stream_can.app.tally import lane_name
from stream_can.errors import StreamCANError
from stream_can.kafka.checking import found_in_topics
from stream_can.kafka.correcting_role import CorrectingRole
from stream_can.kafka.current_state import known_of
from stream_can.kafka.learning_role import LearningRole
from stream_can.kafka.loop import Loop
from stream_can.kafka.schema_lookups import SchemaLookups
from stream_can.kafka.schemas import check
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import start_of
from stream_can.learner.changed_settings import NOTICE
from stream_can.learner.model_name import Name
from stream_can.learner.totals import hit_rate, total
from stream_can.messages.naming import LaneName
from stream_can.trust.episode import Episode
from stream_can.version import __version__

__all__ = ["Worker"]

log = logging.getLogger(__name__)

JOIN_SECONDS = 8.0
"""Seconds for the learner to end after the worker."""


class Worker:
    """Works until it is stopped.

    Parameters
    ----------
    settings
        The settings.
    corrects
        Whether it corrects partitions of the input; otherwise it only learns.
    reset
        Whether to forget all knowledge first.

    Examples
    --------
    ::

        worker = Worker(load("app.toml", {}, os.environ))
        worker.run()  # until worker.stop() is called, from a signal handler or another thread
    """

    def __init__(self, settings: Settings, *, corrects: bool = True, reset: bool = False) -> None:
        self.settings, self._reset = settings, reset
        starts = [start_of(settings) for _ in range(2)]  # each has its own registry client
        self.start = starts[0]
        self.health = Health(settings.live_seconds)
        self.metrics = Metrics(
            self._known, episodes=self._episodes, waits_for=lambda: self.health.waits_for
        )
        self._schemas = [
            SchemaLookups(start.formats, settings.topics_of_labels, settings.connect_seconds)
            for start in starts
        ]
        asks = settings.schema_registry is not None
        lookups_in_use = [lookups if asks else None for lookups in self._schemas]
        self.work = self.learns = None
        self._loops: list[Loop] = []
        if corrects:
            self.work = CorrectingRole(
                settings, self.start, self.metrics, self.health, lookups_in_use[0]
            )
            self.work.more_to_show = self._on_terminal
            self._loops.append(Loop(self.work, settings, self.health))
        if settings.learn or not corrects:
            self.learns = LearningRole(settings, starts[1], self.metrics, lookups_in_use[1])
            health = Health(settings.live_seconds) if corrects else self.health
            self._loops.append(Loop(self.learns, settings, health, takes_turns=True))
        self.doubts = 0
        """Number of topics of which `check` cannot read the newest record, or nothing joins it."""
        self.port: Port | None = None
        self.status_report = StatusReport(
            settings.application_id,
            settings.name,
            has_labels=settings.labels is not None,
            health=self.health,
            metrics=self.metrics,
            known=self._known,
            corrects=corrects,
        )

    def check(self) -> int:
        """Check topics, rights and sizes, and that the newest state matches the settings; return
        the number of partitions.

        Raises
        ------
        DeniedError, RetryError
            The message says what to change.
        """
        for loop in reversed(self._loops):  # who learns needs nearly all topics: names all missing
            loop.role.check()
            loop.role.client.look()
        if self.learns is not None:
            for topic in self.settings.topics_of_labels:
                self.learns.client.readers.newest(topic)
        check(self.settings, self.start.formats)
        client, state, committed = (self.work or self._loops[0].role).client, None, None
        if self.work is not None:
            state, committed = self.work.follower.look(), client.committed()
        index = None if state is None else state.index
        for finding in found_in_topics(self.settings, self.start, client.readers, committed, index):
            log.log(logging.INFO if finding.looks_right else logging.WARNING, "%s", finding.says)
            self.doubts += not finding.looks_right
        if self.work is None:
            return 0
        if state is not None:
            self.work.require_fits(state)
            if self.learns and (changed := self.start.changed(state.correctors.items())):
                log.info(NOTICE.format(changed))
        self.work.close()
        return self.work.known

    def run(self) -> None:
        """Work until `stop`; then commit and leave the groups.

        Raises
        ------
        DeniedError, FencedError, RetryError, UnreadableRecord
            See `EXIT_CODES`.
        """
        s = self.settings
        log.info("%s", self._about())
        if s.http_port is not None:  # before the brokers answer: waiting for them counts as alive
            self.port = Port(
                s.http_host,
                s.http_port,
                self.health,
                self.metrics.registry,
                self.status_report.json,
            )
        first, *further_loops = self._loops
        first.patience.until_answered(lambda: check(s, self.start.formats))
        if self._reset and self.learns is not None:
            first.patience.until_answered(self.learns.begin_anew)
        threads = [
            threading.Thread(target=self._beside, args=(loop,), daemon=True)
            for loop in further_loops
        ]
        for thread in threads:
            thread.start()
        if self.work is None:
            self.health.ready = True
        try:
            first.run()
        finally:
            self.stop()
            for thread in threads:
                thread.join(JOIN_SECONDS)
            if self.port is not None:
                self.port.close()

    def _about(self) -> str:
        """What is started, in a line."""
        s, classes = self.settings, len(self.start.classes)
        does = f"corrects {s.input!r} to {s.output!r}" if self.work is not None else "corrects none"
        labels = ", ".join(map(repr, s.topics_of_labels)) or "none"
        learns = "may learn" if self.learns is not None else "does not learn"
        known = f", {classes} classes" if self.start.classes != NO_CLASSES else ""
        return (
            f"stream_can {__version__}: application {s.application_id!r}, instance {s.name!r},"
            f" {does}, {learns}, labels from {labels}{known}"
        )

    def _beside(self, loop: Loop) -> None:
        """Learn beside a worker, which continues where learning fails."""
        try:
            loop.run()
        except StreamCANError as error:
            log.error("learning ends here: %s", error)
            self._fail(error)
        except Exception:
            log.exception("learning ends here: this is a bug")
            self._fail(StreamCANError("a bug, which the log tells of"))

    def _fail(self, why: StreamCANError) -> None:
        self.health.cannot_learn = str(why)
        self.metrics.cannot_learn()
        if self.work is not None:
            self.work.learning_ended = why

    def stop(self) -> None:
        """End `run` after the current records. May be called from any thread."""
        for loop in self._loops:
            loop.stop()

    def _on_terminal(self) -> str:
        """Dead letters, and the effect so far where this process learns."""
        dead = sum(tally.counts["dead_letters"] for tally in dict(self.metrics.partitions).values())
        text = f", {dead} dead letters" if dead else ""
        learning = None if self.learns is None else self.learns.learning
        if learning is not None:
            raw, sent = total(learning.learner.scores)
            if raw.n:
                name = hit_rate(raw)
                change = f"{getattr(raw, name):.1%} -> {getattr(sent, name):.1%}"
                text += f", {name.replace('_', ' ')} {change} over {raw.n} labels"
        return text

    def _known(self) -> CorrectorsInUse | None:
        state = None if self.work is None else self.work.follower.state
        learns = self.learns
        learning = None if learns is None else learns.learning
        if learns is None or learning is None:
            return None if state is None else state.known(self.settings)
        learner, of = learning.learner, self.settings

        def counted(known: CorrectorsInUse) -> CorrectorsInUse:
            return known._replace(
                dropped=learner.dropped,
                foreign=learns.batch_reader.foreign,
                changed=learner.changed_labels,
                early=learner.early_labels,
            )

        if state is not None:
            return counted(state.known(of))
        live: dict[Name, tuple[DeclaredCorrector, str | None]] = {
            name: (lane.corrector, lane.after) for name, lane in learner.live.items()
        }
        first = learning.start.corrector()
        return counted(known_of(of, learns.writer.number, time.time(), live, first))

    def _episodes(self) -> Mapping[LaneName, Episode]:
        learning = None if self.learns is None else self.learns.learning
        if learning is None:
            return {}
        return {lane_name(name): episode for name, episode in learning.learner.episodes.items()}
