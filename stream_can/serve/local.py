"""LocalService: a single server that corrects, learns, requests labels, and stores all in a file.

A single thread does all of it; `Commits` writes the learner's events.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from stream_can.app.correctors_in_use import CorrectorInUse, CorrectorsInUse
from stream_can.app.counts import Handled
from stream_can.app.health import Health
from stream_can.app.label_reader import LabelReader
from stream_can.app.labelling.request_message import RequestMessage
from stream_can.app.labelling.requests import Chosen, NotOpen, OpenRequests, label_of
from stream_can.app.learner_models import LearnerModels
from stream_can.app.metrics import Metrics
from stream_can.app.model_messages import ModelMessages
from stream_can.app.prediction_reader import PredictionReader, ReadPredictions
from stream_can.app.start import start_of
from stream_can.app.status_report import StatusReport
from stream_can.app.tally import Tally, lane_name
from stream_can.errors import UnknownClass
from stream_can.learner import Corrected
from stream_can.learner.model_name import ONLY
from stream_can.messages.fields import put
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Line
from stream_can.serve.commits import Commits
from stream_can.serve.requests_for_page import RequestsForPage
from stream_can.serve.restored_learner import restored_learner
from stream_can.serve.service import Answers, Service, Status, Unavailable
from stream_can.serve.settings import INPUT, LABELS, ServeSettings
from stream_can.serve.store import Store
from stream_can.serve.unanswered_requests import UnansweredRequests

log = logging.getLogger(__name__)

IDENTITY = "application_id", "probs", "logits", "raw", "label", "id", "model", "version"
"""Settings fixed when a file is created."""


class LocalService(Service):
    """The learner of a server, its file, and its status.

    Parameters
    ----------
    settings
        The server's settings.

    Raises
    ------
    StateError, ValueError
        The file cannot be used, or belongs to another application; or the settings make no
        corrector.
    """

    statuses = "learned", "repeated", "unknown"

    def __init__(self, settings: ServeSettings) -> None:
        super().__init__()
        self.settings = settings
        self.start = start_of(settings)
        self.health = Health(settings.live_seconds)
        self._identity = {name: getattr(settings, name) for name in IDENTITY}
        self._identity["segments"] = list(self.start.segments)
        self.store = Store(settings.state)
        try:
            self.learner, notes = restored_learner(self.store, self.start, settings, self._identity)
        except BaseException:
            self.close()
            raise
        self.learner.switch = settings.switch
        self.models = LearnerModels(
            self.learner,
            self.start,
            max_lanes=settings.max_lanes,
            only_listed=settings.only_listed_models,
            clock=time.time,
        )
        start = self.start
        self.messages = ModelMessages(
            start.classes, settings.fields, start.formats, start.segments, self.models,
            rows=settings.rows, numbering=self.learner.numbering,
        )  # fmt: skip
        self.predictions = PredictionReader(self.messages, needs_id=True)
        self.label_reader = LabelReader(self.messages, needs_id=True)
        self._learned = self._labels_so_far()
        self._newest: float | None = None
        """Time of the last label learned."""
        self.tally = Tally(
            self.start.segments,
            lambda name: len(self.models.classes().get(name, start.classes)),
            named=self.messages.naming is not None,
            sets=settings.sets is not None,
            rows=settings.rows,
        )
        self.requests = UnansweredRequests(self.learner, self.tally, notes)
        self.metrics = Metrics(self._known, episodes=self._episodes)
        self.metrics.restored({0: self.tally}, 0.0)
        self.status_report = StatusReport(
            settings.application_id,
            settings.state,
            has_labels=True,
            health=self.health,
            metrics=self.metrics,
            known=self._known,
            over_http=True,
        )
        self.commits = Commits(
            self.learner,
            self.store,
            self._identity,
            tally=self.tally,
            metrics=self.metrics,
            health=self.health,
            open_notes=self.requests.notes,
        )

    def _labels_so_far(self) -> int:
        correctors = [model.corrector for model in self.learner.live.values()]
        return sum(model.n_labels for model in correctors)

    # -- messages --------------------------------------------------------------------------------

    def correct(self, messages: Sequence[bytes]) -> Answers:
        """See :meth:`Service.correct`."""
        groups, bad = self.predictions.parse([*map(Line, messages)])
        if bad:
            self.models.forget()
            if not self._tries:
                self.tally.refused += self.models.refused
            self.models.refused = 0
            raise self._refuse(bad, len(messages), INPUT)
        self.models.admit()
        learned, out = self._learned, [b""] * len(messages)
        for group in groups:
            for place, message in zip(group.places, self._play(group), strict=True):
                out[place] = message
        return Answers(out, (b"stream-can-learned", b"%d" % learned))

    def _play(self, group: ReadPredictions) -> list[bytes]:
        """Correct predictions of models with the same classes."""
        now, learner, n = time.time(), self.learner, len(group.ids)
        first, columns = learner.next_number, group.columns
        corrected = learner.play(
            group.ids, group.rows, segments=columns, lanes=group.names, times=[now] * n
        )
        sent = group.messages.finished(corrected.rows)
        out = group.write(sent, corrected.asked, corrected.sets)
        self.commits.came(n, group.names or (ONLY,))
        self.tally.predicted(group.ids, group.names, columns, corrected.sets, sent)
        requests = [(i, reason) for i, reason in enumerate(corrected.asked) if reason is not None]
        for i, reason in requests:
            raw, row, classes = group.messages.as_lists(group.rows[i], sent[i])
            if group.names is not None:
                classes = list(group.messages.classes)
            request = RequestMessage(
                (group.ids[i] or b"").decode(errors="replace"), reason, int(1000 * now), raw, row,
                msgspec.Raw(out[i]), classes,
            )  # fmt: skip
            self.commits.note(first + i, msgspec.json.encode(request))
            self.requests.append(first + i, request)
        self.requests.count()
        self.metrics.handled(
            Handled(n, group.off, len(group.faults), requested=[reason for _, reason in requests])
        )
        return out

    async def labels(self, messages: Sequence[bytes]) -> list[Status]:
        """See :meth:`Service.labels`; they are learned at once."""
        statuses = self.label(messages)
        await self.written()
        return statuses

    def label(self, messages: Sequence[bytes]) -> list[Status]:
        """Learn all labels or none; return outcomes, valid once :meth:`written` has returned.

        Raises
        ------
        Refused
            A label cannot be read.
        Unavailable
            The file cannot be written.
        """
        if (trouble := self.commits.trouble) is not None:
            raise Unavailable(f"{trouble}; nothing was learned; send it again")
        labels, places, bad, *_ = self.label_reader.parse([*map(Line, messages)], self.require_few)
        if bad:
            raise self._refuse(bad, len(messages), LABELS)
        now, learner = time.time(), self.learner
        for label in labels:
            label.time = now
        corrected = learner.play([], None, labels)
        statuses: list[Status] = ["unknown"] * len(messages)
        for place, outcome in zip(places, corrected.outcomes, strict=True):
            statuses[place] = outcome
        delays, answered = list[int](), 0
        for joined in corrected.taught:
            if not math.isnan(predicted_at := joined.prediction.time):
                delays.append(int(1000 * (now - predicted_at)))
            answered += self.requests.close(joined.prediction.number)
        self._learned += self._count_learned(corrected)
        if labels:
            self._newest = now
        self.tally.labelled(statuses, corrected.taught)
        self.requests.count()
        self.metrics.handled(Handled(delays=delays, answered=answered))
        names = [joined.name for joined in corrected.taught]
        names += [(label.model, label.version) for label in labels if label.row is not None]
        self.commits.came(0, names if self.messages.naming is not None else (ONLY,))
        return statuses

    def _count_learned(self, corrected: Corrected) -> int:
        """Number of labels learned: with their prediction, with a row of their own, or for the
        class mix alone."""
        joined, outcomes = corrected.taught, corrected.outcomes
        with_own_row = outcomes.count("learned") - len({label.label for label in joined})
        for_class_mix = 0 if self.messages.naming is not None else outcomes.count("unknown")
        return len(joined) + with_own_row + for_class_mix

    # -- status ----------------------------------------------------------------------------------

    def _known(self) -> CorrectorsInUse:
        learner = self.learner
        live = {
            lane_name(name): CorrectorInUse(model.corrector, model.after)
            for name, model in learner.live.items()
        }
        first = next(iter(live.values())).corrector
        lanes = None
        if self.messages.naming is not None:
            lanes = live if learner.models else {}
        newest = None if self._newest is None else int(1000 * self._newest)
        return CorrectorsInUse(
            first, None, newest, learner.sets, lanes, self.settings.max_lanes, learner.dropped,
            learner.changed_labels, learner.early_labels, switch=learner.switch,
        )  # fmt: skip

    def _episodes(self) -> dict[LaneName, Any]:
        return {lane_name(name): episode for name, episode in self.learner.episodes.items()}

    # -- label requests --------------------------------------------------------------------------

    async def learn_answer(self, number: int, chosen: Chosen) -> None:
        """Learn the label of an open request, durably.

        Raises
        ------
        NotOpen
            The request is not open.
        UnknownClass
            There is no such class.
        Unavailable
            See :meth:`labels`.
        """
        self.requests.count()
        pending = self.requests.get(number)
        if pending is None:
            raise NotOpen("this request was answered already, or is too old")
        numbering = self.learner.numbering
        if numbering is not None and isinstance(chosen, str):
            label = numbering.known(chosen)
        else:
            classes = pending.says.classes or self.start.classes
            label = label_of(chosen, classes, self.settings.rows)
        message: dict[str, object] = {}
        put(message, self.messages.first.label_path, label)
        put(message, self.settings.id.split("."), pending.says.id)
        await self.labels([msgspec.json.encode(message)])
        self.requests.close(number)

    def requests_for(self, loop: asyncio.AbstractEventLoop) -> OpenRequests:
        """The open requests."""
        return RequestsForPage(
            loop, self.requests, self.learn_answer, self._knows_class, self.settings.rows,
            self.start.classes, self.messages.first,
        )  # fmt: skip

    def _knows_class(self, name: str) -> bool:
        """Whether sparse rows have a class of this name."""
        numbering = self.learner.numbering
        try:
            return numbering is not None and numbering.known(name) is not None
        except UnknownClass:
            return False

    # -- commits ---------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """Path of the file."""
        return f"state in {self.settings.state}"

    @property
    def _widest(self) -> int:
        return self.messages.widest

    def _counted(self) -> None:
        self.commits.counted()

    async def written(self) -> None:
        """Wait until everything so far is on disk; see :meth:`Commits.written`."""
        await self.commits.written()

    async def run(self) -> None:
        """Commit until :meth:`end`."""
        self.health.ready = True
        await self.commits.run(self.settings.commit_interval_ms / 1000)

    def close(self) -> None:
        """Close the file without writing."""
        self.store.close()

    async def end(self, running: asyncio.Task[None]) -> None:
        """Write the rest and close the file."""
        self.health.ready = False
        await self.commits.end(running)
